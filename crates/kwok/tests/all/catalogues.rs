//! Catalogue files: their meaning (KWK-011 to KWK-025), and the errors about bad ones.

use kerf_kwok::{
    ReadMode, builtin_catalogue, ec2_catalogue, load_catalogue, load_catalogue_or_none, read_catalogue, vocabulary,
};
use kerf_model::instance_type::{Catalogue, InstanceType, allocatable};
use kerf_model::intern::{Interner, sym};
use kerf_model::price::Price;
use kerf_model::requirement::Requirement;
use kerf_model::snapshot::WELL_KNOWN_LABELS;
use kerf_runtime::Clock;
use kerf_runtime::logging::{LogConfig, LogLevel, Sinks};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

#[expect(clippy::needless_pass_by_value, reason = "callers hand over JSON literals")]
fn offering(price: Value, zone: &str, capacity_type: &str) -> Value {
    json!({"Price": price, "Available": true, "Requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
    ]})
}

fn kind(name: &str) -> Value {
    json!({
        "name": name, "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "1", "memory": "2Gi"},
        "offerings": [offering(json!(0.1), "zone-b", "spot"), offering(json!(0.2), "zone-a", "on-demand")],
    })
}

fn lenient(interner: &Interner, file: &Value) -> Catalogue {
    read_catalogue(&file.to_string(), "types.json", interner, ReadMode::Lenient).expect("a readable file")
}

fn one(interner: &Interner, element: &Value) -> InstanceType {
    let mut catalogue = lenient(interner, &json!([element]));
    assert_eq!(catalogue.types.len(), 1);
    catalogue.types.remove(0)
}

fn label(kind: &InstanceType, interner: &Interner, key: &str) -> String {
    let requirement = kind.requirements.get(interner.intern(key)).expect("a label");
    requirement
        .print(interner)
        .split_once(' ')
        .expect("a key and more")
        .1
        .to_owned()
}

// KWK-011, KWK-012, KWK-020
#[test]
fn a_file_is_an_array_of_types_with_their_offerings() {
    let interner = Interner::default();
    let kind = one(&interner, &kind("m5.large"));
    for (key, printed) in [
        ("node.kubernetes.io/instance-type", "In [m5.large]"),
        ("kubernetes.io/arch", "In [amd64]"),
        ("kubernetes.io/os", "In [linux]"),
        ("topology.kubernetes.io/zone", "In [zone-a zone-b]"),
        ("karpenter.sh/capacity-type", "In [on-demand spot]"),
        ("karpenter.kwok.sh/instance-size", "In [large]"),
        ("karpenter.kwok.sh/instance-family", "In [m5]"),
        ("karpenter.kwok.sh/instance-cpu", "In [1]"),
        ("karpenter.kwok.sh/instance-memory", "In [2Gi]"),
    ] {
        assert_eq!(label(&kind, &interner, key), printed, "{key}");
    }
    let prices: Vec<_> = kind.offerings.iter().map(|offering| offering.price).collect();
    assert_eq!(
        prices,
        [0.1, 0.2].map(|price| Price::from_per_hour(price).expect("a price"))
    );
}

// KWK-013
#[test]
fn keys_match_in_any_case_unknown_ones_are_ignored_and_missing_ones_are_zero() {
    let interner = Interner::default();
    let shouted: Value = serde_json::from_str(
        &kind("a")
            .to_string()
            .replace("\"name\"", "\"NAME\"")
            .replace("\"Price\"", "\"pRICE\"")
            .replace("\"key\"", "\"Key\"")
            .replace("\"resources\"", "\"Resources\""),
    )
    .expect("still JSON");
    assert_eq!(one(&interner, &shouted), one(&interner, &kind("a")));
    let mut more = kind("a");
    more["comment"] = json!({"by": "me"});
    assert_eq!(one(&interner, &more), one(&interner, &kind("a")));
    let empty = one(&interner, &json!({}));
    assert_eq!((interner.text(empty.name), empty.offerings.len()), ("", 0));
    assert!(
        empty
            .requirements
            .get(sym::OS)
            .is_some_and(Requirement::is_does_not_exist)
    );
    assert_eq!(label(&empty, &interner, "karpenter.kwok.sh/instance-memory"), "In []");
}

// KWK-014, KWK-016, KWK-024
#[test]
fn quantities_may_be_numbers_and_pods_have_a_default() {
    let interner = Interner::default();
    let plain = one(&interner, &kind("a"));
    assert_eq!(plain.capacity.get(sym::PODS), 110);
    let left = allocatable(&plain.capacity, &plain.overhead, |_| false);
    assert_eq!((left.get(sym::CPU), left.get(sym::MEMORY)), (900, 2038 << 20));
    let mut numbers = kind("a");
    numbers["resources"] = json!({"cpu": 1.5, "memory": "2Ti", "pods": 5, "example.com/widget": "3"});
    let numbers = one(&interner, &numbers);
    let widget = interner.intern("example.com/widget");
    let amounts = [sym::CPU, sym::MEMORY, sym::PODS, widget].map(|name| numbers.capacity.get(name));
    assert_eq!(amounts, [1500, 2 << 40, 5, 3]);
    assert_eq!(numbers.overhead.iter().len(), 2);
}

// KWK-015
#[test]
fn an_offering_is_available_whatever_the_file_says() {
    let interner = Interner::default();
    let mut file = kind("a");
    file["offerings"][0]["Available"] = json!(false);
    assert!(
        one(&interner, &file)
            .offerings
            .iter()
            .all(|offering| offering.available)
    );
}

// KWK-017
#[test]
fn the_old_shape_parses_but_hosts_nothing() {
    let interner = Interner::default();
    let mut file = kind("a");
    file["offerings"] = json!([{"capacityType": "spot", "zone": "zone-a", "price": 0.5, "available": true}]);
    let old = one(&interner, &file);
    assert_eq!(old.offerings[0].price, Price::from_per_hour(0.5).expect("a price"));
    for key in [sym::ZONE, sym::CAPACITY_TYPE] {
        assert!(old.requirements.get(key).is_some_and(Requirement::is_does_not_exist));
    }
    assert!(old.offerings[0].requirements.is_empty());
}

// KWK-020
#[test]
fn zone_values_come_from_the_first_requirement_whatever_its_operator() {
    let interner = Interner::default();
    let mut file = kind("a");
    file["offerings"] = json!([{"Price": 1, "Requirements": [
        {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["zone-a"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-b"]},
    ]}]);
    let kind = one(&interner, &file);
    assert_eq!(label(&kind, &interner, "topology.kubernetes.io/zone"), "In [zone-a]");
}

// KWK-021, KWK-022, KWK-023
#[test]
fn size_and_family_come_from_the_name() {
    let interner = Interner::default();
    for (name, cpu, size, family, canonical) in [
        ("m5.large", "2", "large", "m5", "2"),
        ("m5.xlarge", "4", "xlarge", "m5", "4"),
        ("m5.24xlarge", "96", "24xlarge", "m5", "96"),
        ("c5.metal", "1", "metal", "c5", "1"),
        ("c7i-flex.large", "2", "2", "c7i", "2"),
        ("m5.huge", "8", "8", "m5", "8"),
        ("c-4x-amd64-linux", "4000m", "4", "c", "4"),
        ("tiny", "500m", "500m", "t", "500m"),
    ] {
        let mut file = kind(name);
        file["resources"] = json!({"cpu": cpu, "memory": "2048Gi"});
        let kind = one(&interner, &file);
        let found = ["size", "family", "cpu", "memory"]
            .map(|what| label(&kind, &interner, &format!("karpenter.kwok.sh/instance-{what}")));
        assert_eq!(
            found,
            [size, family, canonical, "2Ti"].map(|value| format!("In [{value}]")),
            "{name}"
        );
    }
}

// KWK-005, KWK-025
#[test]
fn a_reserved_offering_models_a_capacity_reservation() {
    let interner = Interner::default();
    let mut file = kind("a");
    file["offerings"] = json!([{"Price": 0, "ReservationCapacity": 3, "Requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]},
        {"key": "example.com/reservation-id", "operator": "In", "values": ["r-1"]},
    ]}]);
    let catalogue = lenient(&interner, &json!([file]));
    let reservation = catalogue.types[0].offerings[0].reservation.expect("a reservation");
    assert_eq!((interner.text(reservation.id), reservation.capacity), ("r-1", 3));
    let words = vocabulary(&catalogue, &interner);
    assert_eq!(
        words.reservation_id_label.as_deref(),
        Some("example.com/reservation-id")
    );
    assert!(words.labels.is_well_known("example.com/reservation-id"));
}

// KWK-004, SCH-007
#[test]
fn the_vocabulary_has_the_labels_of_the_catalogue_and_restricts_the_domain() {
    let interner = Interner::default();
    let words = vocabulary(&builtin_catalogue(&interner), &interner);
    for name in ["size", "family", "cpu", "memory"] {
        assert!(
            words
                .labels
                .check(&format!("karpenter.kwok.sh/instance-{name}"))
                .is_ok()
        );
    }
    assert!(words.labels.check("karpenter.kwok.sh/other").is_err());
    assert!(words.labels.check("example.com/other").is_ok());
    assert_eq!(words.default_termination_grace_period, None);
    assert!(words.unsupported_provisioners.is_empty() && words.unsupported_volume_topology_keys.is_empty());
}

fn complaints(text: &str) -> Vec<String> {
    let read = read_catalogue(text, "types.json", &Interner::default(), ReadMode::Strict);
    read.expect_err("a bad file")
        .to_string()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn strict_errors_name_file_element_field_and_remedy() {
    let prices = "give the dollars an hour costs, 0 or more and below 10000";
    let quantities = "write a quantity such as \"4\", \"500m\" or \"16Gi\"";
    let at = "types.json: element 0 (a):";
    let set = |pointer: &str, value: Value| {
        let mut file = json!([kind("a")]);
        *file.pointer_mut(pointer).expect("a field") = value;
        file
    };
    let table = [
        (
            set("/0/offerings/1/Price", json!(-1)),
            format!("{at} offerings[1].Price: is negative (-1); {prices}"),
        ),
        (
            set("/0/offerings/1/Price", json!(1e7)),
            format!("{at} offerings[1].Price: is absurd (10000000); {prices}"),
        ),
        (
            set("/0/offerings/1/Price", Value::Null),
            format!("{at} offerings[1].Price: is missing; {prices}"),
        ),
        (
            set("/0/offerings/1/Price", json!("1")),
            format!("{at} offerings[1].Price: is a string; {prices}"),
        ),
        (
            set("/0/resources/cpu", json!("-4")),
            format!("{at} resources.cpu: is negative (-4); {quantities}"),
        ),
        (
            set("/0/resources/cpu", json!("0")),
            format!("{at} resources.cpu: is zero; {quantities}"),
        ),
        (
            set("/0/offerings", json!([])),
            format!("{at} offerings: is missing or empty; write at least one offering"),
        ),
        (
            set("/0/offerings/0/Requirements/0/values", json!(["sp0t"])),
            format!(
                "{at} offerings[0].Requirements: has the unknown capacity type \"sp0t\"; use on-demand, spot or reserved"
            ),
        ),
        (
            set("/0/offerings/1", offering(json!(3), "zone-b", "spot")),
            format!("{at} offerings[1]: repeats the requirements of offerings[0]; remove one of them"),
        ),
        (
            json!([kind("a"), kind("b"), kind("a")]),
            "types.json: element 2 (a): name: repeats the name of element 0; give each type its own name".to_owned(),
        ),
        (
            json!({}),
            "types.json: holds an object; write an array of instance types".to_owned(),
        ),
        (
            json!([]),
            "types.json: holds no instance types; write at least one".to_owned(),
        ),
        (
            json!([1]),
            "types.json: element 0: is a number; write an object with name, resources and offerings".to_owned(),
        ),
    ];
    for (file, expected) in table {
        assert_eq!(complaints(&file.to_string()), [expected]);
    }
    let bad = complaints(&set("/0/resources/memory", json!("4Xi")).to_string());
    assert!(
        bad.len() == 1 && bad[0].starts_with(&format!("{at} resources.memory: is no quantity: ")),
        "{bad:?}"
    );
    assert!(bad[0].ends_with(quantities), "{bad:?}");
}

#[test]
fn strict_reading_reports_everything_at_once() {
    let mut old = kind("");
    old["offerings"] = json!([{"capacityType": "spot", "zone": "z", "price": -0.5}]);
    let found = complaints(&json!([old, {"name": "b"}]).to_string());
    let about = |needle: &str| found.iter().filter(|line| line.contains(needle)).count();
    assert_eq!(about("element 0: name: is missing"), 1, "{found:#?}");
    assert_eq!(about("(the field zone does not count)"), 1);
    assert_eq!(about("(the field capacityType does not count)"), 1);
    assert_eq!(about("offerings[0].Price: is negative"), 1);
    assert_eq!(about("element 1 (b): "), 4, "{found:#?}");
    assert!(
        complaints("[{")
            .iter()
            .all(|line| line.starts_with("types.json: is not JSON: "))
    );
    assert!(!complaints("").is_empty());
}

#[test]
fn a_good_file_passes_strictly() {
    let file = json!([kind("a"), kind("b")]).to_string();
    let read = read_catalogue(&file, "types.json", &Interner::default(), ReadMode::Strict);
    assert_eq!(read.map(|catalogue| catalogue.types.len()), Ok(2));
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("UTF-8")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// KWK-018, KWK-019, OPS-059
#[test]
fn a_named_file_replaces_the_built_in_list_and_a_bad_one_leaves_nothing() {
    let interner = Interner::default();
    assert_eq!(load_catalogue(None, &interner).expect("built in").types.len(), 144);
    let folder = std::env::temp_dir().join(format!("kerf-kwok-catalogues-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (good, bad) = (folder.join("good.json"), folder.join("bad.json"));
    std::fs::write(&good, json!([kind("a")]).to_string()).expect("written");
    std::fs::write(&bad, "nonsense").expect("written");
    assert_eq!(
        load_catalogue(Some(&good), &interner).expect("a good file").types.len(),
        1
    );
    let text = |path: &Path| {
        load_catalogue(Some(path), &interner)
            .expect_err("a bad file")
            .to_string()
    };
    assert!(text(&bad).starts_with("could not parse JSON data: "), "{}", text(&bad));
    let missing = folder.join("missing.json");
    assert!(text(&missing).starts_with("could not read custom instance types file: "));
    let log = Log::default();
    let config = LogConfig {
        level: LogLevel::Error,
        sinks: Sinks::to(log.clone()),
        error_sinks: Sinks::to(std::io::sink()),
        commit: None,
        clock: Clock::simulated(jiff::Timestamp::UNIX_EPOCH),
    };
    tracing::subscriber::with_default(config.subscriber(), || {
        assert!(load_catalogue_or_none(Some(&bad), &interner).types.is_empty());
    });
    let line = log.text();
    assert!(
        line.contains("\"message\":\"failed constructing instance types\"")
            && line.contains("could not parse JSON data"),
        "{line}"
    );
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// The recorded list of the original equals ours, type for type.
#[test]
#[ignore = "needs KERF_SCENARIOS_DIR"]
fn the_built_in_list_equals_the_recorded_one() {
    let folder = std::env::var("KERF_SCENARIOS_DIR").expect("KERF_SCENARIOS_DIR");
    let interner = Interner::default();
    for entry in std::fs::read_dir(Path::new(&folder).join("instance-types")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a file");
        let read = read_catalogue(&text, &path.display().to_string(), &interner, ReadMode::Strict);
        let read = read.unwrap_or_else(|errors| panic!("{errors}"));
        if path.ends_with("its-144.json") {
            assert_eq!(read, *builtin_catalogue(&interner));
        }
    }
}

// SCH-126, KWK-020
#[test]
fn types_of_both_catalogues_say_something_about_every_label() {
    let interner = Interner::default();
    // A pool's own label is nothing a type has; regions and builds of Windows are nothing KWOK's own types have, as upstream.
    let builtin = [sym::NODEPOOL, sym::REGION, sym::WINDOWS_BUILD];
    for (catalogue, unsaid) in [
        (builtin_catalogue(&interner), &builtin[..]),
        (ec2_catalogue(&interner), &builtin[..1]),
    ] {
        let keys = |kind: &InstanceType| kind.requirements.iter().map(|one| one.key).collect::<BTreeSet<_>>();
        let all: BTreeSet<_> = catalogue.types.iter().flat_map(keys).collect();
        let missing: Vec<_> = WELL_KNOWN_LABELS.into_iter().filter(|key| !all.contains(key)).collect();
        assert_eq!(missing, unsaid);
        for kind in &catalogue.types {
            let name = interner.text(kind.name);
            assert_eq!(keys(kind), all, "{name}");
            assert_eq!(
                kind.requirements.get(sym::INSTANCE_TYPE).and_then(Requirement::single),
                Some(kind.name)
            );
            assert!(!kind.offerings.is_empty(), "{name}");
            for offering in &kind.offerings {
                assert!(
                    offering.zone().is_some() && offering.capacity_type().is_some(),
                    "{name}"
                );
            }
            let left = allocatable(&kind.capacity, &kind.overhead, |_| false);
            for resource in [sym::CPU, sym::MEMORY, sym::PODS] {
                assert!(left.get(resource) > 0, "{name}");
            }
        }
    }
}
