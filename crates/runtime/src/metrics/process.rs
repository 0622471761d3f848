//! The `process_*` families (OPS-180), read from `/proc` at scrape time. Where there is no `/proc` they are absent.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge};

/// The unit of CPU times in `/proc/<pid>/stat`: fixed at 100 per second in the Linux ABI.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads resident and virtual memory, CPU time, start time and open files of this process.
pub(super) struct ProcessCollector {
    resident: Gauge,
    virtual_memory: Gauge,
    open_fds: Gauge,
    start_time: Gauge,
    cpu: Counter,
}

impl ProcessCollector {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| Gauge::new(name, help);
        Ok(Self {
            resident: gauge("process_resident_memory_bytes", "Resident memory size in bytes.")?,
            virtual_memory: gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.")?,
            open_fds: gauge("process_open_fds", "Number of open file descriptors.")?,
            start_time: gauge(
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
            )?,
            cpu: Counter::new(
                "process_cpu_seconds_total",
                "Total user and system CPU time spent in seconds.",
            )?,
        })
    }

    fn refresh(&self) -> Option<()> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let kilobytes = |key: &str| -> Option<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim_start_matches(':')
                .split_whitespace()
                .next()?
                .parse::<f64>()
                .ok()
        };
        self.resident.set(kilobytes("VmRSS")? * 1024.0);
        self.virtual_memory.set(kilobytes("VmSize")? * 1024.0);
        // The command name may hold spaces and parentheses; the fields start after the last one. The first is field 3.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
        let cpu = (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND;
        self.cpu.inc_by((cpu - self.cpu.get()).max(0.0));
        let boot = std::fs::read_to_string("/proc/stat").ok()?;
        let boot = boot
            .lines()
            .find_map(|line| line.strip_prefix("btime "))?
            .trim()
            .parse::<f64>()
            .ok()?;
        self.start_time.set(boot + ticks(22)? / TICKS_PER_SECOND);
        self.open_fds
            .set(std::fs::read_dir("/proc/self/fd").ok()?.count() as f64);
        Some(())
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = [&self.resident, &self.virtual_memory, &self.open_fds, &self.start_time];
        gauges
            .into_iter()
            .flat_map(Collector::desc)
            .chain(self.cpu.desc())
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        if self.refresh().is_none() {
            return Vec::new();
        }
        let gauges = [&self.resident, &self.virtual_memory, &self.open_fds, &self.start_time];
        gauges
            .into_iter()
            .flat_map(Collector::collect)
            .chain(self.cpu.collect())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;

    #[cfg_attr(not(target_os = "linux"), ignore = "reads /proc")]
    #[test]
    fn the_process_families_exist() {
        let metrics = Metrics::default();
        metrics.register_process().expect("registers");
        let text = metrics.encode();
        // OPS-180
        for name in [
            "process_resident_memory_bytes",
            "process_cpu_seconds_total",
            "process_start_time_seconds",
            "process_open_fds",
        ] {
            let line = text.lines().find(|l| l.starts_with(&format!("{name} "))).expect(name);
            let value: f64 = line.rsplit(' ').next().and_then(|v| v.parse().ok()).expect(line);
            assert!(value >= 0.0, "{line}");
        }
    }
}
