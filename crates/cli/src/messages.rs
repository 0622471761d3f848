//! Lines on standard error.

/// Writes a line to standard error, with the arguments of `format!`. `eprintln!` panics where standard error cannot be written to, for
/// example on a full disk; here the line is lost and the exit code alone says how the command ended.
macro_rules! say {
    ($($argument:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($argument)*)));
    }};
}

pub(crate) use say;
