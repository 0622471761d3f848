//! Random clusters. `KERF_PROPERTY_CASES` says how many are tried per property (the seeds from `KERF_PROPERTY_FIRST` on); a failure prints the
//! seed and the smallest cluster that still fails, or the whole one under `KERF_PROPERTY_WHOLE=1`.

mod oracle;
mod plans;
mod regressions;
