//! Random clusters in the fixture language.

use crate::draw::Draw;

/// Spread, affinity, ports, preferences, limits and existing nodes, with few values so that rules meet.
pub fn common(draw: &mut Draw) -> String {
    let mut lines = Vec::new();
    for number in 0..2 + draw.below(5) {
        let cpu = draw.pick(&[1, 2, 4, 8, 16]);
        let memory = cpu * draw.pick(&[2, 4, 8]);
        let zones = draw.pick(&["a", "a,b", "a,b,c"]);
        let arch = draw.pick(&["amd64", "amd64", "arm64"]);
        let price = f64::from(cpu) * 0.04 + f64::from(memory) * 0.005 + draw.below(100) as f64 * 0.0001;
        lines.push(format!(
            "type t{number} cpu={cpu} mem={memory}Gi pods=20 price={price:.4} zones={zones} arch={arch}"
        ));
    }
    for number in 0..1 + draw.below(3) {
        let extra = draw.pick(&[
            "",
            "taint=team:NoSchedule",
            "taint=soft:PreferNoSchedule",
            "req=zone:in:a,b",
            "limit=cpu:20",
            "limit=cpu:33 limit=memory:100Gi",
            "limit=cpu:60",
            "limit=nodes:3",
        ]);
        let label = draw.pick(&["", "label=team=red"]);
        lines.push(format!("pool p{number} weight={} {extra} {label}", draw.below(3)));
    }
    if draw.below(2) == 0 {
        let place = draw.pick(&["", "select=arch:in:amd64", "port=80"]);
        lines.push(format!("daemon d cpu=0.1 mem=0.5Gi {place}"));
    }
    for number in 0..draw.below(4) {
        let zone = draw.pick(&["a", "b", "c"]);
        lines.push(format!(
            "node n{number} cpu=4 mem=16Gi zone={zone} label=kubernetes.io/arch=amd64"
        ));
        for pod in 0..draw.below(4) {
            // No bound pod is labelled q, so that the cluster breaks no rule before the plan.
            let repels = draw.pick(&["", "apart=host/app=q", "apart=zone/app=q"]);
            let label = draw.pick(&["x", "y", "z"]);
            lines.push(format!(
                "bound n{number} b{number}-{pod} cpu=0.5 mem=1Gi label=app={label} {repels}"
            ));
        }
    }
    for number in 0..1 + draw.below(6) {
        let cpu = draw.pick(&["0.1", "0.5", "1", "1.5", "3", "7"]);
        let memory = draw.pick(&["0.25Gi", "1Gi", "4Gi", "12Gi"]);
        lines.push(format!(
            "pod w{number}*{} cpu={cpu} mem={memory} {}",
            1 + draw.below(8),
            common_rules(draw)
        ));
    }
    lines.join("\n")
}

fn common_rules(draw: &mut Draw) -> String {
    let mut rules = vec![format!("label=app={}", draw.pick(&["x", "y", "z", "q"]))];
    for _ in 0..draw.below(3) {
        let app = draw.pick(&["x", "y", "z", "q"]);
        let key = draw.pick(&["zone", "host"]);
        let rule = match draw.below(11) {
            0 => format!("apart={key}/app={app}"),
            1 => "port=8080".to_owned(),
            2 => format!("near={key}/app={app}"),
            3 => format!("spread={key}/{}/app={app}", 1 + draw.below(2)),
            4 => format!("spread={key}/1/app={app}/soft"),
            5 => format!("apart~1={key}/app={app}"),
            6 => "select=arch:in:arm64".to_owned(),
            7 => "tol=team".to_owned(),
            8 => "prefer=1/zone:in:b".to_owned(),
            9 => "term=zone:in:c term=zone:in:a".to_owned(),
            _ => "select=team:in:red".to_owned(),
        };
        rules.push(rule);
    }
    rules.join(" ")
}

/// One of some texts, or mostly nothing.
fn maybe(draw: &mut Draw, of: usize, texts: &[&'static str]) -> &'static str {
    if draw.below(of) == 0 { draw.pick(texts) } else { "" }
}

const APPS: [&str; 4] = ["x", "y", "z", "q"];

/// Everything the fixture language can say, a little of each.
pub fn wide(draw: &mut Draw) -> String {
    let mut lines: Vec<String> = Vec::new();
    lines.extend((draw.below(8) == 0).then(|| "# ignore-preferences".to_owned()));
    lines.extend((draw.below(8) == 0).then(|| "# best-effort".to_owned()));
    lines.extend((draw.below(8) == 0).then(|| "# fallback".to_owned()));
    lines.push("known size".to_owned());
    for number in 0..1 + draw.below(5) {
        lines.push(wide_type(draw, number));
    }
    for number in 0..1 + draw.below(3) {
        lines.push(wide_pool(draw, number));
    }
    for number in 0..draw.below(3) {
        let place = draw.pick(&[
            "",
            "select=arch:in:amd64",
            "port=80",
            "tol=*",
            "select=team:in:red",
            "term=zone:in:a term=rack:exists",
        ]);
        let also = maybe(draw, 4, &["port=8080", "tol=*", "gpu=1"]);
        lines.push(format!("daemon d{number} cpu=0.1 mem=0.5Gi {place} {also}"));
    }
    for number in 0..draw.below(4) {
        wide_node(draw, number, &mut lines);
    }
    for number in 0..1 + draw.below(6) {
        let cpu = draw.pick(&["0.1", "0.5", "1", "1.5", "3", "7"]);
        let memory = draw.pick(&["0.25Gi", "1Gi", "4Gi", "12Gi"]);
        let count = 1 + draw.below(6);
        let rules = wide_rules(draw);
        lines.push(format!("pod w{number}*{count} cpu={cpu} mem={memory} {rules}"));
    }
    lines.join("\n")
}

fn wide_type(draw: &mut Draw, number: usize) -> String {
    let cpu = draw.pick(&[1, 2, 4, 8, 16]);
    let memory = cpu * draw.pick(&[2, 4, 8]);
    let zones = draw.pick(&["a", "a,b", "a,b,c", "c"]);
    let arch = draw.pick(&["amd64", "amd64", "arm64", "amd64,arm64"]);
    let price = f64::from(cpu) * 0.04 + f64::from(memory) * 0.005 + draw.below(100) as f64 * 0.0001;
    let spot = if draw.below(3) == 0 {
        format!("spot={:.4}", price / 3.0)
    } else {
        String::new()
    };
    let more = maybe(
        draw,
        3,
        &[
            "gpu=1",
            "has=size=s1",
            "has=size=s2",
            "has=region=r",
            "over=cpu=200m",
            "offer=reserved/a/0.001/res:k:1",
            "offer=reserved/b/0.002/res:l:2",
            "offer=on-demand/a/0.01/off",
            "offer=spot/c/0.01/more:32",
        ],
    );
    format!("type t{number} cpu={cpu} mem={memory}Gi pods=20 price={price:.4} {spot} zones={zones} arch={arch} {more}")
}

fn wide_pool(draw: &mut Draw, number: usize) -> String {
    let taint = maybe(
        draw,
        3,
        &[
            "taint=team:NoSchedule",
            "taint=soft:PreferNoSchedule",
            "taint=gone:NoExecute",
            "startup=boot:NoSchedule",
        ],
    );
    let requires = maybe(
        draw,
        3,
        &[
            "req=zone:in:a,b",
            "req=arch:in:amd64",
            "req=arch:in:amd64,arm64",
            "req=ct:in:spot,on-demand",
            "req=type:exists::min=2",
            "req=zone:exists::min=2",
            "req=rack:in:r1,r2",
            "req=rack:exists",
            "req=zone:notin:a",
            "req=gen:gt:2",
        ],
    );
    let limit = maybe(
        draw,
        4,
        &[
            "limit=cpu:20",
            "limit=cpu:33 limit=memory:100Gi",
            "limit=nodes:2",
            "limit=cpu:0",
            "limit=nvidia.com/gpu:1",
        ],
    );
    let label = maybe(
        draw,
        2,
        &["label=team=red", "label=team=blue", "label=rack=r1", "label=gen=3"],
    );
    let state = maybe(draw, 20, &["static", "notready", "deleting"]);
    format!(
        "pool p{number} weight={} {taint} {requires} {limit} {label} {state}",
        draw.below(3)
    )
}

fn wide_node(draw: &mut Draw, number: usize, lines: &mut Vec<String>) {
    let zone = maybe(draw, 1, &["zone=a", "zone=b", "zone=c", "label=gen=3"]);
    let pool = maybe(draw, 2, &["pool=p0", "pool=p1"]);
    let label = maybe(
        draw,
        2,
        &[
            "label=kubernetes.io/arch=amd64",
            "label=rack=r2",
            "label=team=red",
            "label=topology.kubernetes.io/region=r",
        ],
    );
    let state = maybe(
        draw,
        3,
        &[
            "taint=team:NoSchedule",
            "taint=soft:PreferNoSchedule",
            "booting",
            "deleting",
            "claim-only",
            "attach=csi:2",
            "settling",
        ],
    );
    lines.push(format!("node n{number} cpu=4 mem=16Gi {zone} {pool} {label} {state}"));
    for pod in 0..draw.below(4) {
        let label = draw.pick(&["x", "y", "z"]);
        let rule = maybe(
            draw,
            2,
            &[
                "apart=host/app=q",
                "apart=zone/app=q",
                "apart=rack/app=q",
                "port=8080",
                "vol=v1/csi",
                "vol=v2/csi",
                "daemon",
                "terminating",
                "ns=other",
                "moving",
            ],
        );
        lines.push(format!(
            "bound n{number} b{number}-{pod} cpu=0.5 mem=1Gi label=app={label} {rule}"
        ));
    }
}

fn wide_rules(draw: &mut Draw) -> String {
    let mut rules = vec![format!("label=app={}", draw.pick(&APPS))];
    rules.extend((draw.below(4) == 0).then(|| "label=tier=hot".to_owned()));
    for _ in 0..draw.below(4) {
        let rule = match draw.below(5) {
            0 => wide_spread(draw),
            1 => wide_term(draw),
            _ => draw
                .pick(&[
                    "port=8080",
                    "port=8080@10.0.0.1",
                    "port=80",
                    "tol=team",
                    "tol=soft:PreferNoSchedule",
                    "tol=*",
                    "select=arch:in:arm64",
                    "select=team:in:red",
                    "select=team:notin:red",
                    "select=rack:exists",
                    "select=rack:absent",
                    "select=size:in:s1",
                    "select=size:notin:s1",
                    "select=ct:in:spot",
                    "select=zone:in:a,c",
                    "select=gen:gt:2",
                    "term=zone:in:c term=zone:in:a",
                    "term=arch:in:amd64+zone:in:b term=rack:in:r1",
                    "term=zone:in:zz term=zone:in:a",
                    "prefer=1/zone:in:b",
                    "prefer=5/arch:in:arm64 prefer=2/ct:in:spot",
                    "prefer=1/team:in:green",
                    "vol=v1/csi",
                    "vol=v2/csi/zone:in:a|zone:in:b",
                    "vol=v3/csi/zone:in:a|zone:in:b vol=v4//zone:in:b|zone:in:c",
                    "vol=v5//host:in:n0",
                    "vol=v6//zone:in:a vol=v7//zone:in:b",
                    "gpu=1",
                    "ns=other",
                    "faulty=odd",
                    "select=zone:in:a term=zone:in:b",
                    "select=odd:in:1 term=odd:in:2",
                ])
                .to_owned(),
        };
        rules.push(rule);
    }
    // A namespace given twice would be one too many words.
    rules.join(" ")
}

fn wide_key(draw: &mut Draw) -> &'static str {
    draw.pick(&[
        "zone", "zone", "host", "host", "rack", "arch", "ct", "region", "nowhere",
    ])
}

fn wide_selector(draw: &mut Draw) -> String {
    match draw.below(12) {
        0 => "*".to_owned(),
        1 => "!".to_owned(),
        2 => "tier=hot".to_owned(),
        3 => format!("app={},tier=hot", draw.pick(&APPS)),
        _ => format!("app={}", draw.pick(&APPS)),
    }
}

fn wide_spread(draw: &mut Draw) -> String {
    let (key, selector) = (wide_key(draw), wide_selector(draw));
    let skew = 1 + draw.below(2);
    let soft = maybe(draw, 4, &["/soft"]);
    let min = maybe(draw, 4, &["/min=2", "/min=3", "/min=5"]);
    let taints = maybe(draw, 4, &["/taints"]);
    let any = maybe(draw, 4, &["/anynode"]);
    format!("spread={key}/{skew}/{selector}{soft}{min}{taints}{any}")
}

fn wide_term(draw: &mut Draw) -> String {
    let (key, selector) = (wide_key(draw), wide_selector(draw));
    let kind = draw.pick(&["near", "apart", "near~2", "apart~3"]);
    let namespaces = maybe(draw, 6, &["@other", "@default,other"]);
    format!("{kind}={key}/{selector}{namespaces}")
}

/// A few machines and a few pods, so that everything can be tried: nothing reserved, no `minValues`, no label with countless values, no
/// DaemonSet on some machines of a type only (it counts for the type as a whole: SCH-154), no required spread (its domains may have no machine
/// yet).
pub fn small(draw: &mut Draw) -> String {
    fewer(&wide(draw), |line, word| {
        let odd = ["offer=reserved", "req=rack:exists", "req=gen", "settling", "moving"];
        !odd.iter().any(|start| word.starts_with(start))
            && !word.contains("min=")
            && !word.contains("gen:")
            && !(line.starts_with("daemon") && (word.starts_with("term=") || word.starts_with("select=arch")))
            && (!word.starts_with("spread=") || word.contains("/soft"))
    })
}

/// The same without any rule between pods, so that limits and room are all they share.
pub fn plain(draw: &mut Draw) -> String {
    fewer(&small(draw), |line, word| {
        let tied = ["spread", "near", "apart", "port", "vol"];
        let odd = ["claim-only", "deleting", "term=", "prefer=", "settling"];
        line.starts_with("bound") || !tied.iter().chain(&odd).any(|start| word.starts_with(start))
    })
}

/// The same with spread over zones and hosts, a full machine being in each zone; none over all pods, of which kube-scheduler counts none.
pub fn zonal(draw: &mut Draw) -> String {
    let text = fewer(&wide(draw), |line, word| {
        let odd = [
            "offer=reserved",
            "req=",
            "settling",
            "moving",
            "select=",
            "term=",
            "prefer=",
            "arch=",
            "near",
            "taint=",
            "label=rack",
            "label=gen",
        ];
        let spread = word.starts_with("spread=zone") || word.starts_with("spread=host");
        !odd.iter().any(|start| word.starts_with(start))
            && !word.contains("gen:")
            && !line.starts_with("daemon")
            && !(word.starts_with("spread=") && (!spread || word.contains("/*")))
            && !(word.starts_with("apart") && !word.starts_with("apart=zone") && !word.starts_with("apart=host"))
    });
    let full = ["a", "b", "c"].map(|zone| format!("\nnode full-{zone} cpu=0 mem=1Gi zone={zone}"));
    text + &full.concat()
}

fn fewer(text: &str, keep: impl Fn(&str, &str) -> bool) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let kept = |line: &str| {
        let words = line.split_whitespace();
        words.filter(|word| keep(line, word)).collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = lines.map(kept).filter(|line| line.split(' ').count() > 1).collect();
    let pods: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("pod ")).collect();
    for at in pods.iter().skip(3).rev() {
        lines.remove(*at);
    }
    for line in lines.iter_mut().filter(|line| line.starts_with("pod ")) {
        if let Some((head, tail)) = line.clone().split_once('*') {
            let (count, rest) = tail.split_once(' ').unwrap_or((tail, ""));
            let count = count.parse().unwrap_or(1).min(3);
            *line = format!("{head}*{count} {rest}");
        }
    }
    lines.join("\n")
}

/// A cluster where nothing is scarce, and a few pods unlike all others that go nowhere or to a pool of their own.
pub fn poisoned(draw: &mut Draw) -> String {
    let text = wide(draw);
    let kept = text
        .lines()
        .filter(|line| !line.starts_with("node ") && !line.starts_with("bound "));
    let plain = |line: &str| {
        let words = line.split_whitespace().filter(|word| {
            let scarce = ["limit=", "offer=", "near=host", "near~"]
                .iter()
                .any(|start| word.starts_with(start));
            let coupling = ["near", "apart", "spread"].iter().any(|start| word.starts_with(start));
            !(scarce || word.contains("min=") || (coupling && word.contains("/*")))
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = kept.map(plain).collect();
    for number in 0..1 + draw.below(3) {
        let rules = draw.pick(&[
            "spread=zone/1/app=odd",
            "spread=region/1/app=odd",
            "spread=nowhere/1/app=odd",
            "apart=zone/app=odd",
            "apart=host/app=odd",
            "near=zone/app=odd",
            "near=nowhere/app=odd",
            "select=zone:in:nowhere",
            "select=zone:in:a term=zone:in:b",
            "term=odd:in:1 term=zone:in:b",
            "vol=o1//zone:in:nowhere",
            "vol=o2//zone:in:a vol=o3//zone:in:c",
            "port=8080",
            "faulty=very",
            "prefer=9/zone:in:nowhere",
            "apart~9=zone/app=odd",
            "gpu=99",
            "select=host:in:nobody",
            "spread=zone/1/!/anynode",
        ]);
        let cpu = draw.pick(&["0.1", "2", "7", "1000000", "0"]);
        let count = 1 + draw.below(3);
        lines.push(format!(
            "pod odd{number}*{count} cpu={cpu} mem=1Gi ns=odd label=app=odd {rules}"
        ));
    }
    lines.join("\n")
}
