//! Changes to a cluster and a plan: pods change places, objects gain, lose or change one property.

use super::worlds::{Places, RULES, TRAITS};
use kerf_testkit::draw::Draw;

/// Makes one change, if the cluster has what it needs.
pub(super) fn change(draw: &mut Draw, text: &mut String, places: &mut Places) {
    match draw.below(8) {
        0 | 1 => move_pod(draw, text, places),
        2 => swap_pods(draw, places),
        3 => edit(draw, text, "", drop_word),
        4 => edit(draw, text, "pod ", |draw, words| {
            set(words, "cpu", draw.pick(&["0.1", "2", "3.5"]));
        }),
        5 => edit(draw, text, "node ", |draw, words| {
            set(words, "zone", draw.pick(&["a", "b", "c"]));
        }),
        6 => {
            let start = draw.pick(&["pod ", "pod ", "bound "]);
            edit(draw, text, start, |draw, words| {
                words.push(draw.pick(&RULES).to_owned());
            });
        }
        _ => edit(draw, text, "node ", |draw, words| {
            let more = if draw.below(6) == 0 {
                "deleting"
            } else {
                draw.pick(&TRAITS)
            };
            add_trait(words, more);
        }),
    }
}

fn move_pod(draw: &mut Draw, text: &str, places: &mut Places) {
    let nodes = text
        .lines()
        .filter_map(|line| line.strip_prefix("node ")?.split(' ').next());
    let nodes: Vec<&str> = nodes.collect();
    let pods: Vec<String> = places.keys().cloned().collect();
    if !pods.is_empty() && !nodes.is_empty() {
        let pod = pods[draw.below(pods.len())].clone();
        places.insert(pod, draw.pick(&nodes).to_owned());
    }
}

fn swap_pods(draw: &mut Draw, places: &mut Places) {
    let pods: Vec<String> = places.keys().cloned().collect();
    if pods.len() < 2 {
        return;
    }
    let (one, other) = (&pods[draw.below(pods.len())], &pods[draw.below(pods.len())]);
    let (to_one, to_other) = (places[other].clone(), places[one].clone());
    places.insert(one.clone(), to_one);
    places.insert(other.clone(), to_other);
}

/// Edits the words of one line that begins so.
fn edit(draw: &mut Draw, text: &mut String, start: &str, change: impl FnOnce(&mut Draw, &mut Vec<String>)) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let fitting = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with(start) && !line.starts_with('#'));
    let fitting: Vec<usize> = fitting.map(|(at, _)| at).collect();
    if fitting.is_empty() {
        return;
    }
    let at = draw.pick(&fitting);
    let mut words: Vec<String> = lines[at].split_whitespace().map(str::to_owned).collect();
    change(draw, &mut words);
    lines[at] = words.join(" ");
    *text = lines.join("\n");
}

fn drop_word(draw: &mut Draw, words: &mut Vec<String>) {
    let first = if words[0] == "bound" { 3 } else { 2 };
    let kept = |word: &str| word.starts_with("cpu=") || word.starts_with("mem=");
    let loose: Vec<usize> = (first..words.len()).filter(|at| !kept(&words[*at])).collect();
    if !loose.is_empty() {
        words.remove(draw.pick(&loose));
    }
}

/// Adds what a node has, in place of another value of the same label.
pub(super) fn add_trait(words: &mut Vec<String>, more: &str) {
    let (label, _) = more.rsplit_once('=').unwrap_or((more, ""));
    words.retain(|word| !(more.starts_with("label=") && word.starts_with(label)));
    words.push(more.to_owned());
}

fn set(words: &mut Vec<String>, name: &str, value: &str) {
    let start = format!("{name}=");
    words.retain(|word| !word.starts_with(&start));
    words.push(format!("{start}{value}"));
}
