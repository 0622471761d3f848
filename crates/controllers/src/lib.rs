//! the reconcilers that carry plans and commands out.
