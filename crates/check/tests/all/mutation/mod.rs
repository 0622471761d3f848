//! Accepted plans are changed at random; the checker objects to a changed plan if and only if a brute-force evaluation of the rules does.
//!
//! [`worlds`] makes clusters of existing nodes as text, [`changes`] edits the text or moves pods, [`brute_force`] states the rules once
//! more and tries every order of binding. [`launches`] changes plans that launch nodes, [`open_launches`] makes some of which it is open what
//! becomes of them. `KERF_PROPERTY_CASES` and its like work as for the scheduler's properties.

mod brute_force;
mod changes;
mod launches;
mod open_launches;
mod worlds;
