//! The size of the disk that holds pods' storage (AWS-204).

use super::description::InstanceTypeDescription;
use crate::ami::{DEFAULT_VOLUME_BYTES, default_volumes, pod_device};
use kerf_api::ec2_node_class::{AmiFamily, BlockDeviceMapping, EC2NodeClassSpec, InstanceStorePolicy};

const GB: i64 = 1_000_000_000;

/// Bytes of ephemeral storage of a node of this type.
pub fn ephemeral_storage_bytes(
    description: &InstanceTypeDescription,
    spec: &EC2NodeClassSpec,
    family: AmiFamily,
) -> i64 {
    if let (Some(InstanceStorePolicy::Raid0), Some(storage)) = (spec.instance_store_policy, description.local_storage) {
        return storage.total_gb.saturating_mul(GB);
    }
    let disks = spec.block_devices();
    let root = disks.iter().find(|disk| disk.root_volume).and_then(size);
    root.or_else(|| of_pod_device(disks, family))
        .unwrap_or_else(|| default_size(family))
}

/// The size the class gives the disk that the family puts pods' storage on. The last disk of a custom image is taken for it, with a default
/// size where the image decides.
fn of_pod_device(disks: &[BlockDeviceMapping], family: AmiFamily) -> Option<i64> {
    match pod_device(family) {
        None => disks.last().map(|disk| size(disk).unwrap_or(DEFAULT_VOLUME_BYTES)),
        Some(device) => {
            let on_device = |disk: &&BlockDeviceMapping| disk.device_name.as_deref() == Some(device);
            disks.iter().find(on_device).and_then(size)
        }
    }
}

fn size(disk: &BlockDeviceMapping) -> Option<i64> {
    let size = disk.ebs.as_ref()?.volume_size.as_ref()?;
    Some(size.units_floor())
}

fn default_size(family: AmiFamily) -> i64 {
    let volumes = default_volumes(family);
    let of_device = volumes.iter().find(|volume| Some(volume.device) == pod_device(family));
    of_device.map_or(DEFAULT_VOLUME_BYTES, |volume| volume.bytes)
}
