//! The launch template of one group of instance types: user data, data and name.

use super::aws_cloud::AwsCloud;
use crate::errors::ApiError;
use crate::instance_type::kubelet::{ClassKubelet, ExpressionProblem, ReservedText, settings_for_nodes};
use crate::launch::{TemplateData, TemplateInput, TemplateKey, Tenancy, template_data, template_name};
use crate::offering::CapacityType;
use crate::placement_group::PlacementGroup;
use crate::tags::Tags;
use crate::user_data::{
    BootstrapInput, NodeTaint, SIZE_MAX, SIZE_WARNING, UserDataError, binds_default_paths, bottlerocket_version,
    encode, node_labels, render,
};
use kerf_api::EC2NodeClass;
use kerf_model::instance_type::InstanceType;
use kerf_runtime::client::name_of;
use std::collections::BTreeMap;

/// What a template is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateRequest<'a> {
    /// Labels of the claim.
    pub(crate) labels: &'a BTreeMap<String, String>,
    /// Taints that nodes register with.
    pub(crate) taints: &'a [NodeTaint],
    /// How the instance is bought.
    pub(crate) capacity_type: CapacityType,
    /// Whose hardware it runs on.
    pub(crate) tenancy: Tenancy,
    /// Tags of everything the launch creates.
    pub(crate) tags: &'a Tags,
    /// The class's placement group.
    pub(crate) group: Option<&'a PlacementGroup>,
    /// Partition to launch into.
    pub(crate) partition: Option<u32>,
    /// Whether the claim needs enclave support.
    pub(crate) enclaves: bool,
}

/// Why there is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    /// The user data could not be made.
    #[error(transparent)]
    UserData(#[from] UserDataError),
    /// A call failed.
    #[error("getting launch templates, {0}")]
    Call(#[from] ApiError),
}

impl AwsCloud {
    /// What the expressions of a class reserve on each type.
    pub(crate) fn reserved_by_expressions<'a>(
        &'a self,
        class: &'a EC2NodeClass,
    ) -> impl Fn(&InstanceType) -> Result<Option<ReservedText>, ExpressionProblem> + use<'a> {
        let kubelet = ClassKubelet::usable(&class.spec, self.options.feature_gates.node_class_cel);
        move |kind| {
            if !kubelet.has_expressions() {
                return Ok(None);
            }
            let description = self.types.description(self.interner.text(kind.name));
            description.map_or(Ok(None), |description| {
                kubelet.reserved_of_type(&description, &class.spec, self.options.reserved_enis)
            })
        }
    }

    /// Makes sure that the template exists. Returns its name and data.
    pub(crate) async fn ensure_template(
        &self,
        class: &EC2NodeClass,
        key: &TemplateKey,
        request: &TemplateRequest<'_>,
    ) -> Result<(String, TemplateData), TemplateError> {
        let (data, bytes) = self.template(class, key, request)?;
        let class_name = name_of(class).map_err(|error| ApiError::of_object(&error))?;
        let name = template_name(&self.cluster.name, class_name, &data);
        if self.templates.ensure(&name, &data).await? {
            self.metrics.user_data_bytes.set(&[class_name], bytes as f64);
            if bytes >= SIZE_WARNING {
                tracing::info!(
                    EC2NodeClass = class_name,
                    bytes,
                    limit = SIZE_MAX,
                    "user data is close to the size that EC2 allows"
                );
            }
        }
        Ok((name, data))
    }

    /// The data of a template, and the size of its user data in bytes.
    fn template(
        &self,
        class: &EC2NodeClass,
        key: &TemplateKey,
        request: &TemplateRequest<'_>,
    ) -> Result<(TemplateData, usize), UserDataError> {
        let (spec, cluster) = (&class.spec, &self.cluster);
        let family = spec.effective_family();
        let mut kubelet = settings_for_nodes(spec.kubelet().without_expressions(), self.options.feature_gates);
        if let Some(reserved) = &key.reserved {
            let given = |map: &BTreeMap<String, String>| (!map.is_empty()).then(|| map.clone());
            kubelet.kube_reserved = given(&reserved.kube);
            kubelet.system_reserved = given(&reserved.system);
        }
        let input = BootstrapInput {
            family,
            cluster_name: cluster.name.clone(),
            endpoint: cluster.endpoint.clone(),
            ca_bundle: cluster.ca_bundle.clone(),
            cluster_cidr: cluster.cidr(),
            kubelet,
            taints: request.taints.to_vec(),
            labels: node_labels(request.labels, request.capacity_type.as_str(), family),
            instance_store_policy: spec.instance_store_policy,
            custom: spec.user_data.clone(),
            binds_default_paths: binds_default_paths(bottlerocket_version(class).as_deref()),
        };
        let text = render(&input.with_defaults(key.pods, cluster.kube_dns.as_deref()))?;
        let data = template_data(&TemplateInput {
            class,
            region: &cluster.region,
            key,
            user_data: &encode(&text),
            tags: request.tags,
            capacity_type: request.capacity_type,
            tenancy: request.tenancy,
            group: request.group,
            partition: request.partition,
            enclaves: request.enclaves,
            is_ipv6: cluster.is_ipv6(),
            reserved_capacity: self.reserved_capacity,
        });
        Ok((data, text.len()))
    }
}
