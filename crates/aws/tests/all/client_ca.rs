//! The CA bundle of the Kubernetes client.

use kerf_aws::provider::client_ca;

// AWS-334
#[test]
#[expect(clippy::disallowed_methods, reason = "the kubeconfig is a file")]
fn the_ca_bundle_is_that_of_the_current_context_byte_for_byte() {
    let folder = std::env::temp_dir().join(format!("kerf-client-ca-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (ca, config) = (folder.join("ca.crt"), folder.join("config"));
    std::fs::write(&ca, "CA\n").unwrap();
    let write = |context: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\ncontexts:\n\
             - {{name: data, context: {{cluster: data, user: u}}}}\n- {{name: file, context: {{cluster: file, user: u}}}}\n\
             clusters:\n- {{name: data, cluster: {{server: 'https://a', certificate-authority-data: REFUQQ==}}}}\n\
             - {{name: file, cluster: {{server: 'https://b', certificate-authority: {}}}}}\n",
            ca.display()
        );
        std::fs::write(&config, text).unwrap();
        client_ca(Some(&config))
    };
    assert_eq!(write("data"), "REFUQQ==");
    assert_eq!(write("file"), "Q0EK");
    assert_eq!(write("none"), "");
    std::fs::remove_dir_all(&folder).unwrap();
}
