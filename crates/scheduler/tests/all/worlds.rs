//! Fixtures that several tests use.

/// A pool whose nodes have two cores and 4 GiB.
pub(crate) fn two_core_world(rest: &str) -> String {
    one_type_world("cpu=2 mem=4Gi", rest)
}

/// A pool whose nodes have eight cores and 16 GiB.
pub(crate) fn eight_core_world(rest: &str) -> String {
    one_type_world("cpu=8 mem=16Gi", rest)
}

fn one_type_world(amounts: &str, rest: &str) -> String {
    format!("\ntype t {amounts} price=0.1\npool default\n{rest}")
}

/// Workloads of 50 pods in eight sizes, a quarter of them spread over zones, a quarter over hosts, and instance types with linear prices.
pub(crate) fn spread_workloads(number: usize) -> String {
    let mut lines = Vec::new();
    for (family, memory_per_cpu) in [("c", 2), ("s", 4), ("m", 8)] {
        for cpu in [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256] {
            let (cores, memory) = (f64::from(cpu) - 0.1, 1024 * cpu * memory_per_cpu - 10);
            let price = f64::from(cpu) * (0.025 + 0.001 * f64::from(memory_per_cpu));
            let pods = 16 * cpu;
            lines.push(format!(
                "type {family}{cpu} cpu={cores} mem={memory}Mi pods={pods} price={price:.4} zones=a,b,c,d"
            ));
        }
    }
    lines.push("pool default".to_owned());
    let sizes = [
        (0.1, 256),
        (0.25, 512),
        (0.5, 2048),
        (1.0, 2048),
        (1.0, 8192),
        (2.0, 4096),
        (0.2, 1024),
        (1.5, 1024),
    ];
    for (app, (cpu, memory)) in sizes.iter().cycle().take(number).enumerate() {
        let spread = match app % 4 {
            1 => format!("spread=zone/1/app=a{app}"),
            2 => format!("spread=host/1/app=a{app}"),
            _ => String::new(),
        };
        lines.push(format!(
            "pod a{app}*50 cpu={cpu} mem={memory}Mi label=app=a{app} {spread}"
        ));
    }
    lines.join("\n")
}
