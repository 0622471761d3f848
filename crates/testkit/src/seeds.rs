//! Trying many seeds, and making what fails small.

use crate::draw::Draw;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A property: nothing, or what is wrong with a cluster.
pub type Judge = fn(&str) -> Result<(), String>;

/// Clusters per property in an ordinary run.
const CASES: u64 = 4_000;

fn number(variable: &str, default: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value.and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn judged(judge: Judge, text: &str) -> Result<(), String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| judge(text)));
    outcome.unwrap_or_else(|_| Err("it panicked".to_owned()))
}

/// Judges one cluster per seed, over all processors; `part` says how many of the configured cases are tried, in hundredths.
pub fn hold(part: u64, generate: fn(&mut Draw) -> String, judge: Judge) {
    let first = number("KERF_PROPERTY_FIRST", 0);
    let cases = (number("KERF_PROPERTY_CASES", CASES) * part).div_ceil(100);
    let most = number("KERF_PROPERTY_FAILURES", 1) as usize;
    let (next, enough) = (AtomicU64::new(first), AtomicBool::new(false));
    let failed = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + cases {
                        break;
                    }
                    let text = generate(&mut Draw::new(seed));
                    if let Err(why) = judged(judge, &text) {
                        let mut failed = failed.lock().expect("no thread panics here");
                        failed.push((seed, text, why));
                        enough.store(failed.len() >= most, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().expect("no thread panics here");
    failed.sort();
    let shown = failed.into_iter().map(|(seed, text, why)| {
        let small = if number("KERF_PROPERTY_WHOLE", 0) == 1 {
            text
        } else {
            smaller(judge, text)
        };
        let now = judged(judge, &small).err().unwrap_or(why);
        format!("seed {seed}\n{small}\n{now}\n")
    });
    let shown: Vec<String> = shown.collect();
    assert!(shown.is_empty(), "{} failed\n{}", shown.len(), shown.join("\n"));
}

/// A cluster that fails for as long as anything, but has no line and no word that could go.
fn smaller(judge: Judge, text: String) -> String {
    let fails = |lines: &[String]| judged(judge, &lines.join("\n")).is_err_and(|why| why != "it panicked");
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    if !fails(&lines) {
        return text;
    }
    loop {
        let before = lines.clone();
        for at in (0..lines.len()).rev() {
            let mut without = lines.clone();
            let gone = without.remove(at);
            // What is bound to a node goes with it.
            if let Some(node) = gone.strip_prefix("node ").and_then(|rest| rest.split(' ').next()) {
                without.retain(|line| !line.starts_with(&format!("bound {node} ")));
            }
            if at < lines.len() && fails(&without) {
                lines = without;
            }
        }
        for at in 0..lines.len() {
            let words: Vec<String> = lines[at].split(' ').map(str::to_owned).collect();
            for word in (1..words.len()).rev() {
                let mut less: Vec<String> = lines[at].split(' ').map(str::to_owned).collect();
                let Some(text) = less.get(word).cloned() else { continue };
                if let Some((name, count)) = text.split_once('*').filter(|_| word == 1) {
                    let count: u32 = count.parse().unwrap_or(1);
                    less[word] = if count > 2 {
                        format!("{name}*{}", count - 1)
                    } else {
                        format!("{name}*1")
                    };
                    if count == 1 {
                        continue;
                    }
                } else if word >= 2 + usize::from(words[0] == "bound")
                    && !["cpu=", "mem=", "price=", "zones="]
                        .iter()
                        .any(|kept| text.starts_with(kept))
                {
                    less.remove(word);
                } else {
                    continue;
                }
                let mut without = lines.clone();
                without[at] = less.join(" ");
                if fails(&without) {
                    lines = without;
                }
            }
        }
        if lines == before {
            return lines.join("\n");
        }
    }
}
