//! Cluster-wide kinds whose types are written out because no derive fits them.

/// Makes a type with the field `metadata` a cluster-wide kind, given its kind, group, version and plural.
macro_rules! cluster_wide {
    ($of:ty, $kind:expr, $group:expr, $version:expr, $plural:expr) => {
        impl kube::Resource for $of {
            type DynamicType = ();
            type Scope = kube::core::ClusterResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(crate) use cluster_wide;
