//! The packages that the `kerf` binary is made of: a bill of materials in CycloneDX's format, and the texts of their licences.

use crate::cargo::{metadata, metadata_with};
use crate::source::root;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// What a release is built with. A plain test run asks for less: it has not downloaded the AWS SDK.
const FEATURES: [&str; 2] = ["--features", "kerf-cli/aws"];

/// How names of files with a licence begin, in lower case.
const LICENCE_FILES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// A package of the binary.
struct Package<'a> {
    value: &'a Value,
    dependencies: Vec<&'a str>,
}

impl Package<'_> {
    fn text(&self, key: &str) -> &str {
        self.value[key].as_str().unwrap_or_default()
    }

    fn is_ours(&self) -> bool {
        self.value["source"].is_null()
    }

    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.text("name"), self.text("version"))
    }

    /// The texts of its licences, by file name.
    fn licences(&self) -> BTreeMap<String, String> {
        let folder = Path::new(self.text("manifest_path")).parent().expect("a folder");
        let files = fs::read_dir(folder).expect("the package's folder").flatten();
        files
            .filter_map(|file| {
                let name = file.file_name().to_string_lossy().into_owned();
                let is_licence = LICENCE_FILES.iter().any(|begin| name.to_lowercase().starts_with(begin));
                let text = is_licence.then(|| fs::read_to_string(file.path()).ok()).flatten()?;
                Some((name, text))
            })
            .collect()
    }
}

/// The packages that `kerf-cli` needs to run, by id.
fn packages(metadata: &Value) -> BTreeMap<&str, Package<'_>> {
    let all: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|package| (package["id"].as_str().expect("an id"), package))
        .collect();
    let is_normal = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array().expect("kinds");
        kinds.iter().any(|kind| kind["kind"].is_null())
    };
    let normal: BTreeMap<&str, Vec<&str>> = metadata["resolve"]["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| {
            let dependencies = node["deps"].as_array().expect("dependencies").iter().filter(is_normal);
            let ids = dependencies.map(|one| one["pkg"].as_str().expect("an id")).collect();
            (node["id"].as_str().expect("an id"), ids)
        })
        .collect();
    let root = all.iter().find(|(_, package)| package["name"] == "kerf-cli");
    let (root, _) = root.expect("kerf-cli");
    let (mut found, mut queue) = (BTreeSet::from([*root]), VecDeque::from([*root]));
    while let Some(id) = queue.pop_front() {
        queue.extend(
            normal[id]
                .iter()
                .copied()
                .filter(|dependency| found.insert(*dependency)),
        );
    }
    let package = |id: &str| Package {
        value: all[id],
        dependencies: normal[id].clone(),
    };
    found.into_iter().map(|id| (id, package(id))).collect()
}

/// The bill of materials. Equal lock files give equal bytes, so it has neither a time nor a serial number.
fn bill(packages: &BTreeMap<&str, Package<'_>>) -> Value {
    let component = |package: &Package<'_>| {
        json!({
            "type": "library",
            "bom-ref": package.purl(),
            "name": package.text("name"),
            "version": package.text("version"),
            "purl": package.purl(),
            "licenses": [{"expression": package.text("license").replace('/', " OR ")}],
        })
    };
    let depends = |package: &Package<'_>| {
        let on: BTreeSet<String> = package.dependencies.iter().map(|id| packages[id].purl()).collect();
        json!({"ref": package.purl(), "dependsOn": on})
    };
    let root = packages.values().find(|package| package.text("name") == "kerf-cli");
    let root = root.expect("kerf-cli");
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": root.purl(), "name": "kerf", "version": root.text("version"),
        }},
        "components": packages.values().filter(|package| !package.is_ours()).map(component).collect::<Vec<_>>(),
        "dependencies": packages.values().map(depends).collect::<Vec<_>>(),
    })
}

/// The licence texts of all packages of others, equal texts once.
fn licence_texts(packages: &BTreeMap<&str, Package<'_>>) -> String {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut list = String::from("Packages in the kerf binary and their licences\n\n");
    for package in packages.values().filter(|package| !package.is_ours()) {
        let name = format!("{} {}", package.text("name"), package.text("version"));
        list.push_str(&format!("{name}: {}\n", package.text("license")));
        for (file, text) in package.licences() {
            owners
                .entry(text.trim().to_owned())
                .or_default()
                .insert(format!("{name} ({file})"));
        }
    }
    for (text, owners) in owners {
        let owners: Vec<String> = owners.into_iter().collect();
        list.push_str(&format!("\n----\n{}\n\n{text}\n", owners.join("\n")));
    }
    list
}

#[test]
fn every_package_in_the_binary_has_a_licence_and_is_in_the_bill() {
    let metadata = metadata();
    let packages = packages(&metadata);
    let others: Vec<&Package<'_>> = packages.values().filter(|package| !package.is_ours()).collect();
    assert!(others.len() > 100, "{}", others.len());
    let without: Vec<&str> = others
        .iter()
        .filter(|package| package.text("license").is_empty())
        .map(|package| package.text("name"))
        .collect();
    assert_eq!(without, [""; 0], "packages without a licence");
    let bill = bill(&packages);
    assert_eq!(bill["components"].as_array().map(Vec::len), Some(others.len()));
    let refs: BTreeSet<&str> = bill["dependencies"]
        .as_array()
        .expect("dependencies")
        .iter()
        .map(|one| one["ref"].as_str().expect("a reference"))
        .collect();
    for dependency in bill["dependencies"].as_array().expect("dependencies") {
        for on in dependency["dependsOn"].as_array().expect("references") {
            assert!(refs.contains(on.as_str().expect("a reference")), "{on} is in no list");
        }
    }
    let texts = licence_texts(&packages);
    for package in others {
        assert!(texts.contains(&format!("\n{} {}: ", package.text("name"), package.text("version"))));
    }
}

#[test]
#[ignore = "writes files: target/kerf.cdx.json and target/THIRD-PARTY-LICENSES.txt"]
fn writes_the_bill_of_materials() {
    let metadata = metadata_with(&FEATURES);
    let packages = packages(&metadata);
    let sdk = packages.values().any(|package| package.text("name") == "aws-sdk-ec2");
    assert!(sdk, "a release has the provider aws");
    let target = PathBuf::from(metadata["target_directory"].as_str().expect("a folder"));
    let bill = serde_json::to_string_pretty(&bill(&packages)).expect("JSON");
    fs::write(target.join("kerf.cdx.json"), bill + "\n").expect("it is written");
    fs::write(target.join("THIRD-PARTY-LICENSES.txt"), licence_texts(&packages)).expect("it is written");
}

#[test]
fn the_image_has_the_licences_of_the_binary_it_ships() {
    let dockerfile = fs::read_to_string(root().join("Dockerfile")).expect("Dockerfile");
    assert!(
        dockerfile.contains("--package kerf-cli --bin kerf --features aws"),
        "the features of the bill"
    );
    assert!(dockerfile.contains("-- --ignored writes_the_bill_of_materials"));
    assert!(
        dockerfile.contains("-- -C strip=symbols"),
        "the profile `dist` cannot strip symbols"
    );
    for argument in ["-fuse-ld=lld", "--icf=all", "-z,pack-relative-relocs"] {
        assert!(dockerfile.contains(argument), "{argument} keeps the binary small");
    }
    for file in ["LICENSE", "THIRD-PARTY-LICENSES.txt", "kerf.cdx.json"] {
        let copied = dockerfile
            .lines()
            .any(|line| line.starts_with("COPY --from=build ") && line.ends_with(&format!(" /{file}")));
        assert!(copied, "{file} is not in the image");
    }
}
