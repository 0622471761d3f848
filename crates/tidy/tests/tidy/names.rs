//! Names are those a Kubernetes or Karpenter engineer would search for, and each has one meaning.
//!
//! Only declarations are read: modules (files, folders, `mod`), types, traits and functions of the code that ships.

use crate::source::{Source, crate_of, rust_files};
use crate::verdict::judge;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// Crates that still declare names with a banned word.
const WORDS_NOT_YET: &[&str] = &[];
/// Crates that still declare a banned name.
const NAMES_NOT_YET: &[&str] = &[];
/// Names that still have several meanings.
const MEANINGS_NOT_YET: &[&str] = &[];

/// Words that no name may contain, and the word to use. `CamelCase` and `snake_case` names are split into words.
const WORDS: &[(&str, &str)] = &[
    ("bell", "relist"),
    ("blow", "fault"),
    ("conduct", "behavior"),
    ("fate", "outcome"),
    ("frugal", "max pods"),
    ("hindrance", "blocked by"),
    ("orchestration", "queue"),
    ("patience", "timeout"),
    ("rejoin", "re-registration"),
    ("relapse", "back-off"),
    ("relief", "limit retry"),
    ("shelves", "slack index"),
    ("silence", "unresponsive"),
    ("snug", "best fit"),
    ("steadiness", "clock jump guard"),
    ("tell", "report, publish"),
    ("telling", "events, report"),
    ("thrifty", "bounded growth"),
    ("told", "reported"),
    ("victims", "deletion order"),
];

/// Modules (lower case) and types (upper case) that are banned as a whole: the crate (`*` for all), the name, and the name to use.
const NAMES: &[(&str, &str, &str)] = &[
    ("*", "asked", "launch lock"),
    ("*", "audit", "watch check"),
    ("*", "listing", "relist"),
    ("*", "notices", "events"),
    ("*", "stay", "unconsolidatable"),
    ("*", "survey", "single-node results"),
    ("*", "trust", "unlaunched timeout"),
    ("*", "turns", "fairness"),
    ("*", "Turn", "method run"),
    ("*", "worth", "LP duals"),
    ("cli", "Act", "action"),
    ("cli", "Guards", "what may protect a node"),
    ("cli", "guards", "what may protect a node"),
    ("cli", "Look", "observation"),
    ("controllers", "assessment", "condition rules"),
    ("controllers", "cycle", "disruption loop"),
    ("controllers", "held", "pinned placements"),
    ("controllers", "marking", "taints"),
    ("controllers", "Member", "commands in flight"),
    ("controllers", "memory", "search cache"),
    ("controllers", "planned", "pinned placements"),
    ("controllers", "record", "report"),
    ("controllers", "Registry", "commands in flight"),
    ("controllers", "registry", "commands in flight"),
    ("controllers", "relaxing", "events"),
    ("controllers", "sorting", "candidate cache"),
    ("disruption", "Alone", "single-node results"),
    ("disruption", "offers", "replacement options"),
    ("kwok", "announcements", "interruptions"),
    ("kwok", "birth", "node creation"),
    ("kwok", "recipe", "node template"),
    ("scheduler", "Ask", "query"),
    ("scheduler", "Fit", "narrowed"),
    ("scheduler", "held", "pinned placements"),
    ("scheduler", "No", "rejection"),
    ("scheduler", "Reading", "relaxation level"),
    ("scheduler", "Run", "assignment"),
    ("scheduler", "run", "assignment"),
    ("scheduler", "World", "problem"),
    ("scheduler", "world", "problem"),
];

/// Type names that may be declared once in the whole workspace: they have had several meanings.
const ONE_MEANING: [&str; 7] = ["Decision", "Held", "Known", "Place", "State", "Verdict", "World"];

/// What a name is declared as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    Module,
    Type,
    Function,
}

/// One declaration: what it is, its name, and the line (0 for a file or folder).
type Declared = (Sort, String, usize);

/// What the shipped code of one file declares; its own file name and the folders above it are modules.
fn declared(source: &Source) -> Vec<Declared> {
    let pattern =
        Regex::new(r"\b(mod|struct|enum|trait|type|union|fn)\s+([A-Za-z_]\w*)").expect("a regular expression");
    let mut found = Vec::new();
    if let Some((_, inside)) = source.path.split_once("/src/") {
        let parts = inside.trim_end_matches(".rs").split('/');
        found.extend(parts.map(|part| (Sort::Module, part.to_owned(), 0)));
    }
    let code = source.shipped_code();
    for captures in pattern.captures_iter(&code) {
        let (whole, name) = (captures.get(0).expect("the match"), captures[2].to_owned());
        let sort = match &captures[1] {
            "mod" => Sort::Module,
            "fn" => Sort::Function,
            _ => Sort::Type,
        };
        found.push((sort, name, source.line_of(whole.start())));
    }
    found
}

/// The words of a name in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && lower) {
            words.push(String::new());
        }
        lower = letter.is_lowercase();
        if letter != '_' {
            words
                .last_mut()
                .expect("one word at least")
                .extend(letter.to_lowercase());
        }
    }
    words
}

/// The name to use instead, where `name` is banned as a whole in this crate. Functions are free: they are verbs.
fn banned_as_a_whole(krate: &str, sort: Sort, name: &str) -> Option<&'static str> {
    let mut listed = NAMES.iter().filter(|(place, _, _)| *place == "*" || *place == krate);
    let (_, _, plain) = listed.find(|(_, banned, _)| *banned == name && sort != Sort::Function)?;
    Some(plain)
}

/// Findings by crate; a folder is reported once.
fn findings(test: impl Fn(&str, Sort, &str) -> Option<String>) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for source in rust_files().iter().filter(|source| !source.is_test_file()) {
        let krate = crate_of(&source.path);
        for (sort, name, line) in declared(source) {
            let Some(finding) = test(krate, sort, &name) else {
                continue;
            };
            if line > 0 || seen.insert((krate.to_owned(), name.clone())) {
                let texts = found.entry(krate.to_owned()).or_default();
                texts.push(format!("{}:{line}: `{name}`: {finding}", source.path));
            }
        }
    }
    found
}

#[test]
fn no_name_contains_a_banned_word() {
    let found = findings(|_, _, name| {
        let words = words(name);
        let listed = WORDS.iter().find(|(banned, _)| words.iter().any(|word| word == banned));
        listed.map(|(banned, plain)| format!("not \"{banned}\" but \"{plain}\""))
    });
    judge("names with a banned word", &found, WORDS_NOT_YET);
}

#[test]
fn no_banned_name_is_declared() {
    let found = findings(|krate, sort, name| {
        banned_as_a_whole(krate, sort, name).map(|plain| format!("call it by what it is: {plain}"))
    });
    judge("banned names", &found, NAMES_NOT_YET);
}

#[test]
fn names_that_had_several_meanings_have_one() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in rust_files().iter().filter(|source| !source.is_test_file()) {
        for (sort, name, line) in declared(source) {
            if sort == Sort::Type && ONE_MEANING.contains(&name.as_str()) {
                places.entry(name).or_default().push(format!("{}:{line}", source.path));
            }
        }
    }
    places.retain(|_, places| places.len() > 1);
    judge("names with several meanings", &places, MEANINGS_NOT_YET);
}

#[test]
fn names_split_into_words() {
    assert_eq!(words("best_fit"), ["best", "fit"]);
    assert_eq!(words("ClockJumpGuard"), ["clock", "jump", "guard"]);
    assert_eq!(words("LIMIT"), ["limit"]);
}

#[test]
fn declarations_are_read_with_their_file() {
    let text =
        "mod held;\nstruct World<T>(T);\nimpl World<u8> { fn run(&self) {} }\n#[cfg(test)]\nmod tests { fn tell() {} }";
    let source = Source::new("crates/scheduler/src/run/mod.rs".to_owned(), text.to_owned());
    let names: Vec<_> = declared(&source)
        .into_iter()
        .filter(|(sort, name, _)| banned_as_a_whole("scheduler", *sort, name).is_some())
        .map(|(_, name, line)| format!("{name} {line}"))
        .collect();
    assert_eq!(names, ["run 0", "held 1", "World 2"]);
}
