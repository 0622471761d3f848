//! Windows: PowerShell that calls the image's bootstrap script (AWS-148).

use super::input::BootstrapInput;
use super::kubelet_flags::kubelet_flags;

/// The script: the class's lines, then the call.
pub(super) fn render(input: &BootstrapInput) -> String {
    let mut text = String::from("<powershell>\n");
    if let Some(custom) = input.custom() {
        text.push_str(custom);
        text.push('\n');
    }
    text.push_str("[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n");
    let mut arguments = vec![
        ("EKSClusterName", input.cluster_name.clone()),
        ("APIServerEndpoint", input.endpoint.clone()),
    ];
    if !input.ca_bundle.is_empty() {
        arguments.push(("Base64ClusterCA", input.ca_bundle.clone()));
    }
    arguments.push(("KubeletExtraArgs", kubelet_flags(input).join(" ")));
    arguments.extend(input.dns_server().map(|address| ("DNSClusterIP", address.to_owned())));
    let arguments: Vec<String> = arguments
        .iter()
        .map(|(name, value)| format!("-{name} '{value}'"))
        .collect();
    text.push_str(&format!(
        "& $EKSBootstrapScriptFile {}\n</powershell>",
        arguments.join(" ")
    ));
    text
}
