//! Requests and their answers: reads a request, calls the verb under the lock, renders the answer.

mod answer;
mod body;
mod call;
mod discovery;
mod objects;
mod reviews;
mod route;
mod subresources;

pub(crate) use answer::Answer;
pub use body::ResponseBody;
pub(crate) use route::handle;
