//! Random clusters. `KERF_PROPERTY_CASES` is the number tried per property, with seeds from `KERF_PROPERTY_FIRST` on. A failure prints the
//! seed and the smallest cluster that still fails, or the whole cluster with `KERF_PROPERTY_WHOLE=1`.

mod apart;
mod oracle;
mod plans;
mod regressions;
