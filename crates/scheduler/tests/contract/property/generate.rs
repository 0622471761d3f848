//! Random clusters in the fixture language.

use crate::workload::Draw;

/// Spread, affinity, ports, preferences, limits and existing nodes, with few values so that rules meet.
pub(super) fn common(draw: &mut Draw) -> String {
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
