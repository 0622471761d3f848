//! the KWOK provider: nodes without machines.
