//! The tests of the model from outside.

mod bytes;
