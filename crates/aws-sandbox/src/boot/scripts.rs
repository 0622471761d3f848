//! Images that a script joins to the cluster: Amazon Linux 2 and Windows.

use super::bootstrap::{BootError, Bootstrap};
use super::flags;
use super::words::words;
use kerf_aws::user_data::Archive;

/// Amazon Linux 2: the last call of `bootstrap.sh` counts.
pub(super) fn read_al2(text: &str) -> Result<Bootstrap, BootError> {
    let scripts: Vec<String> = if Archive::is_meant(text) {
        let archive = Archive::parse(text).map_err(|_| BootError::Unreadable("it is no MIME archive"))?;
        let scripts = archive
            .parts
            .into_iter()
            .filter(|part| part.content_type().starts_with("text/x-shellscript"));
        scripts.map(|part| part.content).collect()
    } else {
        vec![text.to_owned()]
    };
    let is_script = |script: &&String| script.trim_start().starts_with("#!");
    let mut calls = scripts.iter().filter(is_script).filter_map(|script| {
        let (_, call) = script.rsplit_once("/etc/eks/bootstrap.sh ")?;
        Some(logical_line(call))
    });
    let call = calls.next_back().ok_or(BootError::NoBootstrap)?;
    let words = words(&call).ok_or(BootError::Unreadable(
        "the call of bootstrap.sh has a quote that does not end",
    ))?;
    let mut read = Bootstrap::default();
    let mut words = words.into_iter();
    let mut uses_max_pods = true;
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or(BootError::Unreadable("an argument of bootstrap.sh has no value"))
        };
        match word.as_str() {
            "--apiserver-endpoint" => read.endpoint = Some(value()?),
            "--b64-cluster-ca" => read.ca_bundle = Some(value()?),
            "--kubelet-extra-args" => flags::read(&value()?, &mut read)?,
            "--use-max-pods" => uses_max_pods = value()? != "false",
            "--local-disks" => read.uses_local_disks = value()? == "raid0",
            "--dns-cluster-ip" => read.kubelet.cluster_dns = Some(vec![value()?]),
            flag if flag.starts_with("--") => drop(value()?),
            name => name.clone_into(&mut read.cluster_name),
        }
    }
    if uses_max_pods {
        // The image counts the pods by its network interfaces.
        read.kubelet.max_pods = None;
    }
    if read.cluster_name.is_empty() {
        return Err(BootError::Missing("name of a cluster"));
    }
    Ok(read)
}

/// The first line, with the lines that continue it.
fn logical_line(text: &str) -> String {
    let mut line = String::new();
    for part in text.lines() {
        match part.strip_suffix('\\') {
            Some(part) => {
                line.push_str(part);
                line.push(' ');
            }
            None => {
                line.push_str(part);
                break;
            }
        }
    }
    line
}

/// Windows: the last call of the bootstrap script counts.
pub(super) fn read_windows(text: &str) -> Result<Bootstrap, BootError> {
    let (_, script) = text.split_once("<powershell>").ok_or(BootError::NoBootstrap)?;
    let (script, _) = script
        .split_once("</powershell>")
        .ok_or(BootError::Unreadable("<powershell> does not end"))?;
    let mut calls = script
        .lines()
        .filter(|line| line.contains("$EKSBootstrapScriptFile -") || line.contains("Start-EKSBootstrap.ps1 "));
    let call = calls.next_back().ok_or(BootError::NoBootstrap)?;
    let words = words(call).ok_or(BootError::Unreadable(
        "the call of the bootstrap script has a quote that does not end",
    ))?;
    let mut read = Bootstrap::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words.next().ok_or(BootError::Unreadable(
                "an argument of the bootstrap script has no value",
            ))
        };
        match word.as_str() {
            "-EKSClusterName" => read.cluster_name = value()?,
            "-APIServerEndpoint" => read.endpoint = Some(value()?),
            "-Base64ClusterCA" => read.ca_bundle = Some(value()?),
            "-KubeletExtraArgs" => flags::read(&value()?, &mut read)?,
            "-DNSClusterIP" => read.kubelet.cluster_dns = Some(vec![value()?]),
            _ => {}
        }
    }
    if read.cluster_name.is_empty() {
        return Err(BootError::Missing("name of a cluster"));
    }
    Ok(read)
}
