//! which nodes should go, what replaces them, and why.
