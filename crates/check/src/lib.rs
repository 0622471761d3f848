//! the plan checker: slow and obviously right.
