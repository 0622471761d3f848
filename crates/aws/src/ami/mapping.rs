//! Which image an instance type gets (AWS-122).

use crate::labels::label_rules;
use kerf_api::ec2_node_class::NodeClassAmi;
use kerf_model::instance_type::InstanceType;
use kerf_model::intern::Interner;
use kerf_model::requirement::Requirements;

/// Images with their requirements read once.
fn read<'a>(amis: &'a [NodeClassAmi], interner: &Interner) -> Vec<(&'a str, Requirements)> {
    let rules = label_rules();
    amis.iter()
        .map(|ami| {
            (
                ami.id.as_str(),
                kerf_cloud::requirements(&ami.requirements, &rules, interner),
            )
        })
        .collect()
}

fn first_fitting<'a>(amis: &[(&'a str, Requirements)], kind: &InstanceType, interner: &Interner) -> Option<&'a str> {
    let fits = |wanted: &Requirements| kind.requirements.compatible(wanted, |_| false, interner).is_ok();
    amis.iter().find(|(_, wanted)| fits(wanted)).map(|(id, _)| *id)
}

/// The image of an instance type: the first of the class's whose requirements it meets.
pub fn ami_for<'a>(kind: &InstanceType, amis: &'a [NodeClassAmi], interner: &Interner) -> Option<&'a str> {
    first_fitting(&read(amis, interner), kind, interner)
}

/// The instance types by image, in the order of the images; types that no image fits are left out.
pub fn group_by_ami<'a, 'k>(
    kinds: impl IntoIterator<Item = &'k InstanceType>,
    amis: &'a [NodeClassAmi],
    interner: &Interner,
) -> Vec<(&'a str, Vec<&'k InstanceType>)> {
    let read = read(amis, interner);
    let mut groups: Vec<(&'a str, Vec<&'k InstanceType>)> = Vec::new();
    for kind in kinds {
        let Some(id) = first_fitting(&read, kind, interner) else {
            continue;
        };
        match groups.iter_mut().find(|(known, _)| *known == id) {
            Some((_, kinds)) => kinds.push(kind),
            None => groups.push((id, vec![kind])),
        }
    }
    let place = |id: &str| amis.iter().position(|ami| ami.id == id);
    groups.sort_by_key(|(id, _)| place(id));
    groups
}
