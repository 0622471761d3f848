//! What the server serves, as documents: versions, groups, resources, health.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::dispatch::Call;
use crate::error::ApiError;
use crate::request::Route;
use crate::state::State;

/// Answers everything that is no object.
pub(crate) fn answer(state: &State, call: &Call<'_>, route: &Route) -> Result<Answer, ApiError> {
    let _ = (state, call);
    match route {
        Route::Health => Ok(Answer::text("ok")),
        Route::Version => Ok(Answer::json(200, &version())),
        _ => Err(ApiError::no_such_path()),
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.0-kerf", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
    })
}
