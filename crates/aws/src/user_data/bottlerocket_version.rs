//! The version of a class's Bottlerocket images (AWS-147).

use kerf_api::EC2NodeClass;

/// First version whose images bind the usual folders to local disks by themselves.
const BINDS_FROM: (u64, u64, u64) = (1, 46, 0);

/// The version in the name of an image, such as `bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-431fe75a`.
fn version_in_name(name: &str) -> Option<&str> {
    name.split('-').find(|part| part.starts_with('v') && part.contains('.'))
}

/// The version: of the alias, else in the name of a selector term, else that of a selected image whose id a term has, else that of any
/// selected Bottlerocket image.
pub fn bottlerocket_version(class: &EC2NodeClass) -> Option<String> {
    let terms = &class.spec.ami_selector_terms;
    let alias = terms
        .iter()
        .filter_map(|term| term.alias.as_deref())
        .find_map(|alias| alias.split_once('@'));
    let of_image = |id: Option<&str>| {
        let images = class.status.amis.iter();
        let wanted = images.filter(|ami| id.is_none_or(|id| ami.id == id));
        let mut names = wanted
            .filter_map(|ami| ami.name.as_deref())
            .filter(|name| name.contains("bottlerocket"));
        names.find_map(version_in_name)
    };
    let in_name = || {
        terms
            .iter()
            .filter_map(|term| term.name.as_deref())
            .find_map(version_in_name)
    };
    let of_id = || {
        terms
            .iter()
            .filter_map(|term| term.id.as_deref())
            .find_map(|id| of_image(Some(id)))
    };
    let version = alias
        .map(|(_, version)| version)
        .or_else(in_name)
        .or_else(of_id)
        .or_else(|| of_image(None));
    version.map(str::to_owned)
}

/// Whether images of a version bind the usual folders by themselves. `latest` does; a version that cannot be read does not.
pub fn binds_default_paths(version: Option<&str>) -> bool {
    let Some(version) = version else { return false };
    if version == "latest" {
        return true;
    }
    let mut parts = version
        .trim_start_matches('v')
        .split('.')
        .map(|part| part.parse::<u64>().ok());
    let read = (parts.next().flatten(), parts.next().flatten(), parts.next().flatten());
    matches!(read, (Some(major), Some(minor), Some(patch)) if (major, minor, patch) >= BINDS_FROM)
}
