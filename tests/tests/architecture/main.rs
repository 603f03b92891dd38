//! The arrows of the architecture, held over the manifests: which crate may import which of ours,
//! and where each heavy library lives. And that every dependency's licence is a permissive one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

mod layers;
mod modules;
mod paths;

/// Who may import whom, in reading order. A new arrow is a design decision: it is made here.
const ARROWS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("timer-wheel", &[]),
    ("engine", &["domain", "timer-wheel"]),
    ("wire", &["domain"]),
    ("store", &["domain", "wire"]),
    ("replication", &["domain", "store", "wire"]),
    // AMQP 1.0 by itself: codec, engine, nothing of ours.
    ("amqp-protocol", &[]),
    ("amqp-client", &["amqp-protocol"]),
    ("message-content", &["amqp-protocol", "domain", "wire"]),
    ("auth", &[]),
    // Of `auth` whose keys it finds.
    ("openid", &["auth"]),
    // Of `auth` who somebody is.
    ("limits", &["auth"]),
    // Azure's language of templates, by itself.
    ("arm-template", &[]),
    // What files say of entities, by itself: no cluster is asked.
    ("definitions", &["arm-template", "domain"]),
    // What clients are made to meet: of `definitions` how durations are written, of `wire` what filters read.
    ("fault-rules", &["definitions", "domain", "wire"]),
    // Collectors, and figures that come to them as a page: nothing of the broker's.
    ("otlp", &[]),
    // What is told of traced messages: steps of `domain`, however they came about; of `otlp` the way to a collector.
    ("spans", &["domain", "otlp"]),
    // Of `auth` the keys of an entity, as its description has them; of `spans` the queue to its exporter.
    (
        "service",
        &["auth", "domain", "engine", "fault-rules", "limits", "replication", "spans", "wire"],
    ),
    // Of `auth` what a certificate says of its holder.
    ("transport", &["auth"]),
    // Beside what front ends do: who did it, and what came of it.
    ("audit", &["auth", "domain", "service", "transport"]),
    (
        "amqp",
        &[
            "amqp-protocol",
            "audit",
            "auth",
            "domain",
            "fault-rules",
            "limits",
            "message-content",
            "service",
            "transport",
        ],
    ),
    (
        "grpc",
        &["audit", "auth", "domain", "limits", "message-content", "service", "transport", "wire"],
    ),
    // Pages ask what clients of the native API ask, and are let in by the same door.
    ("console", &["auth", "domain", "grpc", "limits", "message-content", "service", "wire"]),
    // Azure's management asks what the other doors for management ask; of `definitions` how Azure writes entities.
    // Templates are the evaluator's.
    ("azure", &["arm-template", "audit", "auth", "definitions", "domain", "limits", "service"]),
    (
        "http",
        &[
            "audit",
            "auth",
            "azure",
            "console",
            "domain",
            "fault-rules",
            "limits",
            "message-content",
            "service",
            "transport",
            "wire",
        ],
    ),
    // Bytes, their names, and where they are kept: nothing of the broker's.
    ("backup", &[]),
    ("client", &["wire"]),
    // A load generator speaks what it loads.
    ("workload", &["amqp-client", "amqp-protocol", "client", "transport"]),
    // Of `auth` the signing of tokens, of `client` whom to trust.
    ("remote", &["auth", "client"]),
    // Of `auth` the signing of tokens; of `definitions` and `domain` what files say of entities.
    (
        "load",
        &[
            "amqp-client",
            "amqp-protocol",
            "auth",
            "client",
            "definitions",
            "domain",
            "remote",
            "workload",
        ],
    ),
    // And what hurts a cluster speaks what it speaks; of `transport` how nodes go through a proxy.
    ("chaos", &["amqp-client", "amqp-protocol", "client", "fault-rules", "remote", "transport"]),
    // Of `chaos` clusters and what hurts them; of `definitions` and `fault-rules` what files say; of `load` texts with
    // fields, which it sends.
    ("experiment", &["chaos", "client", "definitions", "fault-rules", "load"]),
    ("simulation", &["domain", "engine", "replication", "store", "wire"]),
    // Of tests only.
    ("fuzz", &[]),
    (
        "mayfly",
        &[
            "amqp",
            "audit",
            "auth",
            "azure",
            "backup",
            "chaos",
            "client",
            "console",
            "definitions",
            "domain",
            "experiment",
            "fault-rules",
            "grpc",
            "http",
            "limits",
            "load",
            "message-content",
            "openid",
            "otlp",
            "remote",
            "replication",
            "service",
            "spans",
            "store",
            "transport",
            "wire",
            "workload",
        ],
    ),
];

/// Where a library may be imported. Those not named may be imported anywhere but in `PURE`.
const HOMES: &[(&str, &[&str])] = &[
    ("rocksdb", &["store"]),
    ("openraft", &["replication"]),
    ("tonic", &["replication", "grpc", "client", "remote", "load", "chaos"]),
    ("tonic-health", &["grpc", "client"]),
    ("tonic-prost", &["replication", "grpc", "client", "load", "chaos"]),
    ("prost", &["wire", "replication", "service", "grpc", "client", "load", "chaos", "otlp"]),
    ("opentelemetry-proto", &["otlp", "spans"]),
    ("axum", &["azure", "console", "http"]),
    ("maud", &["console"]),
    ("hyper", &["http"]),
    // Made in one place, and read in two: as people have them, and as peers show them.
    ("rcgen", &["mayfly"]),
    ("x509-cert", &["mayfly", "transport"]),
    // Where backups are kept, and what they are sealed with. It chooses the provider of TLS, no more.
    ("object_store", &["backup"]),
    ("reqwest", &["backup", "openid", "otlp"]),
    // And what tokens are signed with.
    ("ring", &["auth", "azure", "backup"]),
    ("rustls", &["backup", "openid", "otlp", "transport"]),
    ("rustls-native-certs", &["transport"]),
    ("tokio-rustls", &["transport"]),
    ("hdrhistogram", &["workload"]),
    ("clap", &["mayfly", "simulation"]),
    ("anyhow", &["mayfly"]),
    (
        "tokio",
        &[
            "openid",
            "otlp",
            "replication",
            "service",
            "spans",
            "transport",
            "amqp",
            "amqp-client",
            "grpc",
            "console",
            "azure",
            "http",
            "client",
            "backup",
            "workload",
            "remote",
            "load",
            "chaos",
            "experiment",
            "simulation",
            "mayfly",
        ],
    ),
];

/// No clock, randomness, runtime or metrics here: only these libraries.
const PURE: &[(&str, &[&str])] = &[
    ("domain", &["bytes", "memchr", "thiserror"]),
    ("timer-wheel", &[]),
    ("engine", &["bytes"]),
    (
        "auth",
        &["base64", "hmac", "percent-encoding", "ring", "serde", "serde_json", "sha2", "thiserror"],
    ),
    ("amqp-protocol", &["bytes", "bytestring", "thiserror"]),
    ("message-content", &["bytes", "thiserror"]),
    ("arm-template", &["jsonc-parser", "serde_json"]),
    (
        "definitions",
        &[
            "humantime",
            "jiff",
            "jsonc-parser",
            "serde",
            "serde_json",
            "serde_path_to_error",
            "toml",
            "uuid",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").into()
}

/// Names under `[dependencies]` of every crate: what it can reach when it runs.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("crates")).expect("crates/") {
        let dir = entry.expect("an entry of crates/").path();
        let text = std::fs::read_to_string(dir.join("Cargo.toml")).expect("a manifest");
        let manifest: toml::Table = text.parse().expect("a manifest in TOML");
        let name = manifest["package"]["name"].as_str().expect("a name").to_owned();
        assert_eq!(Some(name.as_str()), dir.file_name().and_then(|n| n.to_str()), "folder = crate");
        let table = manifest.get("dependencies").and_then(|d| d.as_table());
        all.insert(name, table.map(|t| t.keys().cloned().collect()).unwrap_or_default());
    }
    all
}

#[test]
fn every_import_of_ours_is_an_arrow_of_the_architecture() {
    let dependencies = dependencies();
    let ours: Vec<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    for (name, imports) in &dependencies {
        let (_, allowed) = ARROWS
            .iter()
            .find(|(crate_name, _)| crate_name == name)
            .unwrap_or_else(|| panic!("crate '{name}' has no line in ARROWS"));
        for import in imports.iter().filter(|import| ours.contains(&import.as_str())) {
            assert!(allowed.contains(&import.as_str()), "'{name}' must not import '{import}'");
        }
    }
    assert_eq!(dependencies.len(), ARROWS.len(), "a crate of ARROWS is missing from crates/");
}

#[test]
fn heavy_libraries_stay_at_home_and_the_core_stays_pure() {
    for (name, imports) in &dependencies() {
        for (library, homes) in HOMES {
            if imports.iter().any(|import| import == library) {
                assert!(homes.contains(&name.as_str()), "'{library}' must not be in '{name}'");
            }
        }
        let Some((_, allowed)) = PURE.iter().find(|(pure, _)| pure == name) else { continue };
        for import in imports {
            let is_ours = ARROWS.iter().any(|(ours, _)| ours == import);
            assert!(
                is_ours || allowed.contains(&import.as_str()),
                "'{name}' is pure and must not import '{import}'"
            );
        }
    }
}

/// Licences under which a dependency may be used by an MIT OR Apache-2.0 project.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    // Of data: lists of certificate authorities.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an SPDX expression of `OR`, `AND` and parentheses can be met with `LICENCES`.
fn permitted(expression: &str) -> bool {
    // `/` is the old spelling of OR. No licence we met nests deeper than AND over OR groups.
    let expression = expression.replace('/', " OR ");
    expression
        .replace(['(', ')'], " ")
        .split(" AND ")
        .all(|group| group.split(" OR ").any(|licence| LICENCES.contains(&licence.trim())))
}

/// What cargo says of the workspace. It may have to fetch what only other platforms build.
fn cargo(args: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO"))
        .args(args)
        .arg("--locked")
        .current_dir(root())
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A simulation's time stands still. The features of one build are those that all of it asks for, so
/// what simulates must not be part of the build that makes the broker (`deploy/local.sh`).
#[test]
fn the_broker_is_built_without_what_only_simulations_need() {
    let has_still_time = |more: &[&str]| {
        let tree = ["tree", "--workspace", "--edges", "normal,build,features", "--invert", "tokio"];
        let tree = cargo(&[&tree, more].concat());
        String::from_utf8(tree).expect("text").contains("tokio feature \"test-util\"")
    };
    assert!(!has_still_time(&[]));
    assert!(has_still_time(&["--features", "simulation/raft"]), "it would be seen");
}

#[test]
fn every_dependency_has_a_permissive_licence() {
    let metadata = cargo(&["metadata", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_slice(&metadata).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 100, "cargo metadata listed {} packages", packages.len());
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !permitted(package["license"].as_str().unwrap_or_default()))
        .map(|package| format!("{} ({})", package["name"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "not permissive: {}", refused.join(", "));
}

#[test]
fn licence_expressions_are_understood() {
    assert!(permitted("MIT OR Apache-2.0"));
    assert!(permitted("MIT/Apache-2.0"));
    assert!(permitted("(MIT OR GPL-3.0) AND Unicode-3.0"));
    assert!(!permitted("GPL-3.0"));
    assert!(!permitted("MIT AND GPL-3.0"));
    assert!(!permitted(""));
}
