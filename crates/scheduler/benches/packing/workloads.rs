//! Generated workloads: clusters in the fixture language, with catalogues like those of clouds.

use kerf_testkit::draw::Draw;
use std::fmt::Write;

/// A workload: its kind, and the cluster as text.
pub(crate) struct Workload {
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

/// A generator of the pods of a workload.
type Pods = fn(&mut Draw) -> String;

/// The kinds of workloads.
const KINDS: [(&str, Pods); 11] = [
    ("small", small),
    ("balanced", balanced),
    ("diverse", diverse),
    ("large", large),
    ("bimodal", bimodal),
    ("deployments", deployments),
    ("zone spread", zone_spread),
    ("host spread", host_spread),
    ("anti-affinity", anti_affinity),
    ("preferences", preferences),
    ("architectures", architectures),
];

/// `each` workloads of every kind, in turn over the catalogues: linear prices, prices like EC2's, and the same with spot.
pub(crate) fn all(each: u64) -> Vec<Workload> {
    let mut all = Vec::new();
    for (number, (kind, pods)) in (0u64..).zip(KINDS) {
        for seed in 0..each {
            let mut draw = Draw::new(number * 1_000_000 + seed);
            let catalogue = match seed % 3 {
                0 => linear(),
                1 => families(&mut draw, false),
                _ => families(&mut draw, true),
            };
            let pods = pods(&mut draw);
            all.push(Workload {
                kind,
                text: format!("{catalogue}pool default\n{}{pods}", daemons(&mut draw)),
            });
        }
    }
    all
}

/// A cluster with up to 20 Deployments.
pub(crate) fn small_world(draw: &mut Draw) -> String {
    let catalogue = match draw.below(3) {
        0 => linear(),
        1 => families(draw, false),
        _ => families(draw, true),
    };
    let count = 1 + draw.below(20);
    let pods = match draw.below(4) {
        0 => with_rules(draw, count, |draw, app| match draw.below(4) {
            0 => format!("spread=zone/1/app={app}"),
            1 => format!("spread=host/1/app={app}/soft"),
            2 => "select=arch:in:amd64".to_owned(),
            _ => String::new(),
        }),
        _ => with_rules(draw, count, |_, _| String::new()),
    };
    let mut text = format!("{catalogue}pool default\n{}{pods}", daemons(draw));
    if draw.below(3) == 0 {
        for number in 0..1 + draw.below(4) {
            let zone = draw.pick(&["a", "b", "c"]);
            let _ = writeln!(
                text,
                "node n{number} cpu=8 mem=32Gi zone={zone} label=kubernetes.io/arch=amd64\n\
                 bound n{number} b{number} cpu={} mem=4Gi label=app=old",
                2 + draw.below(5)
            );
        }
    }
    text
}

/// Prices that are a linear function of cpu and memory: 2, 4 and 8 GiB per core, from 1 to 256 cores.
fn linear() -> String {
    let mut text = String::new();
    for (family, ratio) in [("c", 2), ("s", 4), ("m", 8)] {
        for cpu in [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256] {
            let memory = cpu * ratio;
            let price = 0.025 * f64::from(cpu) + 0.001 * f64::from(memory) * 1.073_741_824;
            let pods = (cpu * 16).min(1024);
            let _ = writeln!(
                text,
                "type {family}-{cpu}x cpu={cpu} mem={memory}Gi pods={pods} price={price:.6}"
            );
        }
    }
    text
}

/// Families of several generations like EC2's, with its pod limits and kubelet's reservations; spot prices differ by type and zone.
fn families(draw: &mut Draw, spot: bool) -> String {
    let mut text = String::new();
    let sizes = [
        ("large", 2, 29),
        ("xlarge", 4, 58),
        ("2xlarge", 8, 58),
        ("4xlarge", 16, 234),
        ("8xlarge", 32, 234),
        ("12xlarge", 48, 234),
        ("16xlarge", 64, 737),
        ("24xlarge", 96, 737),
    ];
    for (family, ratio, per_core) in [("c", 2, 0.0425), ("m", 4, 0.048), ("r", 8, 0.063)] {
        for (generation, factor, arch) in [
            ("5", 1.0, "amd64"),
            ("6i", 1.0, "amd64"),
            ("6a", 0.9, "amd64"),
            ("7i", 1.05, "amd64"),
            ("6g", 0.8, "arm64"),
            ("7g", 0.85, "arm64"),
        ] {
            for (size, cpu, pods) in sizes {
                let price = per_core * factor * f64::from(cpu);
                let mut offers = String::new();
                if spot {
                    for zone in ["a", "b", "c"] {
                        let share = 0.25 + draw.below(45) as f64 / 100.0;
                        let _ = write!(offers, " offer=spot/{zone}/{:.4}", price * share);
                    }
                }
                let memory = cpu * ratio;
                let _ = writeln!(
                    text,
                    "type {family}{generation}.{size} cpu={cpu} mem={memory}Gi pods={pods} price={price:.4} zones=a,b,c arch={arch} \
                     over=cpu={}m over=mem={}Mi{offers}",
                    60 + cpu * 3,
                    355 + pods * 11
                );
            }
        }
    }
    text
}

/// None, or the agents most clusters run.
fn daemons(draw: &mut Draw) -> String {
    if draw.below(2) == 0 {
        return String::new();
    }
    "daemon proxy cpu=0.1 mem=64Mi\ndaemon cni cpu=0.05 mem=64Mi\ndaemon logs cpu=0.1 mem=200Mi\n".to_owned()
}

fn shape(draw: &mut Draw) -> String {
    let cpu = draw.pick(&["0.05", "0.1", "0.25", "0.5", "1", "1.5", "2", "4"]);
    let memory = draw.pick(&["64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi", "8Gi"]);
    format!("cpu={cpu} mem={memory}")
}

fn small(draw: &mut Draw) -> String {
    let count = draw.pick(&[200, 500, 1000, 2000]);
    format!("pod small*{count} cpu=0.1 mem={}Mi\n", draw.pick(&[64, 128, 256, 512]))
}

fn balanced(draw: &mut Draw) -> String {
    let mut text = String::new();
    for number in 0..6 {
        let (cpu, memory) = draw.pick(&[
            ("0.25", "1Gi"),
            ("0.5", "2Gi"),
            ("1", "4Gi"),
            ("2", "8Gi"),
            ("4", "16Gi"),
        ]);
        let _ = writeln!(text, "pod b{number}*{} cpu={cpu} mem={memory}", 10 + draw.below(80));
    }
    text
}

fn diverse(draw: &mut Draw) -> String {
    let mut text = String::new();
    for number in 0..20 + draw.below(100) {
        let _ = writeln!(text, "pod d{number}*{} {}", 1 + draw.below(20), shape(draw));
    }
    text
}

fn large(draw: &mut Draw) -> String {
    let mut text = String::new();
    for number in 0..4 {
        let cpu = draw.pick(&[3, 5, 7, 12, 15]);
        let memory = cpu * draw.pick(&[1, 3, 4, 7]);
        let _ = writeln!(text, "pod l{number}*{} cpu={cpu} mem={memory}Gi", 5 + draw.below(40));
    }
    text
}

fn bimodal(draw: &mut Draw) -> String {
    let (few, many) = (10 + draw.below(40), 200 + draw.below(800));
    let memory = draw.pick(&[8, 24, 48]);
    format!("pod big*{few} cpu=7 mem={memory}Gi\npod tiny*{many} cpu=0.1 mem=200Mi\n")
}

/// Deployments with `rules` of their own.
fn with_rules(draw: &mut Draw, count: usize, rules: impl Fn(&mut Draw, &str) -> String) -> String {
    let mut text = String::new();
    for number in 0..count {
        let app = format!("w{number}");
        let replicas = draw.pick(&[1, 2, 2, 3, 3, 5, 8, 10, 20, 40]);
        let rules = rules(draw, &app);
        let _ = writeln!(text, "pod {app}*{replicas} {} label=app={app} {rules}", shape(draw));
    }
    text
}

fn deployments(draw: &mut Draw) -> String {
    with_rules(draw, 60, |draw, app| match draw.below(8) {
        0 => format!("spread=zone/1/app={app}"),
        1 => format!("spread=host/1/app={app}/soft"),
        2 => format!("apart~1=host/app={app}"),
        _ => String::new(),
    })
}

fn zone_spread(draw: &mut Draw) -> String {
    with_rules(draw, 30, |_, app| format!("spread=zone/1/app={app}"))
}

fn host_spread(draw: &mut Draw) -> String {
    with_rules(draw, 30, |draw, app| match draw.below(3) {
        0 => String::new(),
        skew => format!("spread=host/{skew}/app={app}"),
    })
}

fn anti_affinity(draw: &mut Draw) -> String {
    with_rules(draw, 30, |draw, app| match draw.below(3) {
        0 => format!("apart=host/app={app}"),
        1 => format!("near=host/app={app}"),
        _ => String::new(),
    })
}

fn preferences(draw: &mut Draw) -> String {
    with_rules(draw, 40, |draw, app| match draw.below(4) {
        0 => format!("apart~1=host/app={app}"),
        1 => format!("spread=zone/1/app={app}/soft"),
        2 => "prefer=1/zone:in:b".to_owned(),
        _ => format!("near~1=zone/app={app}"),
    })
}

fn architectures(draw: &mut Draw) -> String {
    with_rules(draw, 40, |draw, _| match draw.below(4) {
        0 => "select=zone:in:a".to_owned(),
        1 => "select=ct:in:on-demand".to_owned(),
        _ => "select=arch:in:amd64".to_owned(),
    })
}
