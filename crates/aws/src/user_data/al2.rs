//! Amazon Linux 2: an archive with a script that calls the image's `bootstrap.sh` (AWS-132 to AWS-134, AWS-150).

use super::input::BootstrapInput;
use super::kubelet_flags::kubelet_flags;
use super::mime::{Archive, MimeError, Part, SHELL_SCRIPT};

/// The parts of the class's own user data: those of an archive, or the text as one script.
pub(super) fn custom_parts(custom: &str) -> Result<Vec<Part>, MimeError> {
    if Archive::is_meant(custom) {
        return Ok(Archive::parse(custom)?.parts);
    }
    Ok(vec![Part::new(SHELL_SCRIPT, custom)])
}

/// The archive: the class's parts, then the script.
pub(super) fn render(input: &BootstrapInput) -> Result<String, MimeError> {
    let mut parts = match input.custom() {
        Some(custom) => custom_parts(custom)?,
        None => Vec::new(),
    };
    parts.push(Part::new(SHELL_SCRIPT, script(input)));
    Ok(Archive { parts }.render())
}

fn script(input: &BootstrapInput) -> String {
    let mut arguments = vec![
        format!(
            "/etc/eks/bootstrap.sh '{}' --apiserver-endpoint '{}'",
            input.cluster_name, input.endpoint
        ) + &ca_argument(&input.ca_bundle),
    ];
    let dns = input.dns_server();
    if dns.is_some_and(|address| address.contains(':')) {
        arguments.push("--ip-family ipv6".to_owned());
    }
    arguments.extend(dns.map(|address| format!("--dns-cluster-ip '{address}'")));
    if input.kubelet.max_pods_count().is_some() {
        arguments.push("--use-max-pods false".to_owned());
    }
    arguments.push(format!("--kubelet-extra-args '{}'", kubelet_flags(input).join(" ")));
    if input.uses_local_disks() {
        arguments.push("--local-disks raid0".to_owned());
    }
    let log = "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1";
    format!("#!/bin/bash -xe\n{log}\n{}", arguments.join(" \\\n"))
}

fn ca_argument(ca_bundle: &str) -> String {
    match ca_bundle {
        "" => String::new(),
        bundle => format!(" --b64-cluster-ca '{bundle}'"),
    }
}
