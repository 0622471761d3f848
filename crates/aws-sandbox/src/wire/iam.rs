//! IAM: instance profiles.

use super::errors::{REQUEST_ID, unknown_action};
use super::params::Params;
use super::request::{Service, WireAnswer};
use super::xml::Xml;
use crate::account::{Account, Answer, PageRequest, Profile};
use jiff::Timestamp;
use kerf_aws::tags::Tags;

/// Items of a page without a number of its own.
const PAGE: usize = 100;

pub(super) fn act(account: &mut Account, action: &str, params: &Params, now: Timestamp) -> Answer<WireAnswer> {
    let id = account.id.clone();
    let name = || params.required("InstanceProfileName");
    let role = || params.required("RoleName");
    Ok(match action {
        "GetInstanceProfile" => {
            let found = account.profile(name()?)?;
            answer(action, |xml| profile(xml, "InstanceProfile", found, &id))
        }
        "CreateInstanceProfile" => {
            let path = params.text("Path").unwrap_or("/");
            let made = account.create_profile(name()?, path, tags(params), now)?;
            answer(action, |xml| profile(xml, "InstanceProfile", made, &id))
        }
        "AddRoleToInstanceProfile" => {
            account.add_role(name()?, role()?)?;
            answer(action, |_| {})
        }
        "RemoveRoleFromInstanceProfile" => {
            account.remove_role(name()?, role()?)?;
            answer(action, |_| {})
        }
        "DeleteInstanceProfile" => {
            account.delete_profile(name()?)?;
            answer(action, |_| {})
        }
        "ListInstanceProfiles" => {
            let page = PageRequest {
                max: params.parsed("MaxItems")?.or(Some(PAGE)),
                token: params.owned("Marker"),
            };
            let page = account.list_profiles(params.text("PathPrefix").unwrap_or("/"), &page)?;
            answer(action, |xml| {
                xml.node("InstanceProfiles", |xml| {
                    for one in &page.items {
                        profile(xml, "member", one, &id);
                    }
                });
                xml.leaf("IsTruncated", page.next.is_some());
                xml.optional("Marker", page.next.as_deref());
            })
        }
        _ => return Err(unknown_action(Service::Iam, action)),
    })
}

fn tags(params: &Params) -> Tags {
    let all = params.below("Tags").list("member");
    all.filter_map(|tag| Some((tag.owned("Key")?, tag.owned("Value").unwrap_or_default())))
        .collect()
}

fn answer(action: &str, result: impl FnOnce(&mut Xml)) -> WireAnswer {
    let mut xml = Xml::default();
    xml.node(
        &format!("{action}Response xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\""),
        |xml| {
            xml.node(&format!("{action}Result"), result);
            xml.node("ResponseMetadata", |xml| xml.leaf("RequestId", REQUEST_ID));
        },
    );
    WireAnswer::xml(xml.finish())
}

fn profile(xml: &mut Xml, element: &str, from: &Profile, account: &str) {
    xml.node(element, |xml| {
        xml.leaf("Path", &from.path);
        xml.leaf("InstanceProfileName", &from.name);
        xml.leaf("InstanceProfileId", format!("AIPA{}", from.name.to_uppercase()));
        xml.leaf(
            "Arn",
            format!("arn:aws:iam::{account}:instance-profile{}{}", from.path, from.name),
        );
        xml.leaf("CreateDate", from.created.strftime("%Y-%m-%dT%H:%M:%SZ"));
        xml.list("Roles", "member", &from.role, |xml, role| {
            xml.leaf("Path", "/");
            xml.leaf("RoleName", role);
            xml.leaf("RoleId", format!("AROA{}", role.to_uppercase()));
            xml.leaf("Arn", format!("arn:aws:iam::{account}:role/{role}"));
            xml.leaf("CreateDate", from.created.strftime("%Y-%m-%dT%H:%M:%SZ"));
        });
        xml.list("Tags", "member", &from.tags, |xml, (key, value)| {
            xml.leaf("Key", key);
            xml.leaf("Value", value);
        });
    });
}
