//! DescribeInstanceTypes and DescribeInstanceTypeOfferings.

use super::{PAGE_MAX, filters, page};
use crate::account::{Account, Answer, Refusal};
use crate::wire::params::Params;
use crate::wire::xml::Xml;
use kerf_aws::instance_type::{InstanceTypeDescription, NetworkDescription, UsageClass};

/// Most types of a page.
const TYPES_MAX: usize = 100;

pub(super) fn offerings(account: &Account, params: &Params) -> Answer<Xml> {
    let location = params.text("LocationType").unwrap_or("region");
    let found = account.describe_type_zones(location, &page(params, PAGE_MAX)?)?;
    let mut xml = Xml::default();
    xml.list("instanceTypeOfferingSet", "item", &found.items, |xml, (kind, zone)| {
        xml.leaf("instanceType", kind);
        xml.leaf("locationType", location);
        xml.leaf("location", zone);
    });
    xml.optional("nextToken", found.next);
    Ok(xml)
}

pub(super) fn types(account: &Account, params: &Params) -> Answer<Xml> {
    if params.flag("DryRun") {
        let message = "Request would have succeeded, but DryRun flag is set.";
        return Err(Refusal::new("DryRunOperation", message).with_status(412));
    }
    let mut page = page(params, TYPES_MAX)?;
    page.max = page.max.or(Some(TYPES_MAX));
    let found = account.describe_types(&filters(params)?, &page)?;
    let mut xml = Xml::default();
    xml.list("instanceTypeSet", "item", &found.items, |xml, one| {
        instance_type(xml, one);
    });
    xml.optional("nextToken", found.next);
    Ok(xml)
}

const fn usage_class(class: UsageClass) -> &'static str {
    match class {
        UsageClass::OnDemand => "on-demand",
        UsageClass::Spot => "spot",
        UsageClass::CapacityBlock => "capacity-block",
    }
}

fn instance_type(xml: &mut Xml, kind: &InstanceTypeDescription) {
    xml.leaf("instanceType", &kind.name);
    xml.texts(
        "supportedUsageClasses",
        "item",
        kind.usage_classes.iter().copied().map(usage_class),
    );
    xml.texts("supportedVirtualizationTypes", "item", ["hvm"]);
    xml.leaf("bareMetal", kind.hypervisor.is_none());
    xml.optional("hypervisor", kind.hypervisor.as_ref());
    xml.node("processorInfo", |xml| {
        xml.texts("supportedArchitectures", "item", &kind.architectures);
        xml.optional("sustainedClockSpeedInGhz", kind.clock_ghz);
        xml.texts("supportedFeatures", "item", &kind.processor_features);
        xml.optional("manufacturer", kind.cpu_manufacturer.as_ref());
    });
    xml.node("vCpuInfo", |xml| xml.leaf("defaultVCpus", kind.vcpus));
    xml.node("memoryInfo", |xml| xml.leaf("sizeInMiB", kind.memory_mib));
    xml.leaf("instanceStorageSupported", kind.local_storage.is_some());
    if let Some(storage) = kind.local_storage {
        xml.node("instanceStorageInfo", |xml| {
            xml.leaf("totalSizeInGB", storage.total_gb);
            xml.leaf("nvmeSupport", if storage.is_nvme { "required" } else { "unsupported" });
        });
    }
    xml.node("ebsInfo", |xml| match kind.ebs_mbps {
        Some(mbps) => {
            xml.leaf("ebsOptimizedSupport", "default");
            xml.node("ebsOptimizedInfo", |xml| xml.leaf("maximumBandwidthInMbps", mbps));
        }
        None => xml.leaf("ebsOptimizedSupport", "unsupported"),
    });
    if let Some(about) = &kind.network {
        network(xml, about);
    }
    accelerators(xml, kind);
    xml.node("placementGroupInfo", |xml| {
        xml.texts("supportedStrategies", "item", &kind.placement_strategies);
    });
}

fn network(xml: &mut Xml, from: &NetworkDescription) {
    xml.node("networkInfo", |xml| {
        let interfaces: i64 = from.cards.iter().map(|card| card.interfaces_max).sum();
        xml.leaf("maximumNetworkInterfaces", interfaces);
        xml.leaf("maximumNetworkCards", from.cards.len());
        xml.leaf("defaultNetworkCardIndex", from.default_card);
        xml.list("networkCards", "item", &from.cards, |xml, card| {
            xml.leaf("networkCardIndex", card.index);
            xml.leaf("maximumNetworkInterfaces", card.interfaces_max);
        });
        xml.leaf("ipv4AddressesPerInterface", from.ipv4_per_interface);
        xml.leaf("enaSupport", if from.ena { "required" } else { "unsupported" });
        xml.leaf("efaSupported", from.efa_max.is_some());
        if let Some(max) = from.efa_max {
            xml.node("efaInfo", |xml| xml.leaf("maximumEfaInterfaces", max));
        }
        xml.leaf("encryptionInTransitSupported", from.encryption_in_transit);
    });
}

fn accelerators(xml: &mut Xml, kind: &InstanceTypeDescription) {
    if !kind.gpus.is_empty() {
        xml.node("gpuInfo", |xml| {
            xml.list("gpus", "item", &kind.gpus, |xml, gpu| {
                xml.leaf("name", &gpu.name);
                xml.leaf("manufacturer", &gpu.manufacturer);
                xml.leaf("count", gpu.count);
                xml.node("memoryInfo", |xml| xml.leaf("sizeInMiB", gpu.memory_mib));
            });
        });
    }
    if !kind.inference_accelerators.is_empty() {
        xml.node("inferenceAcceleratorInfo", |xml| {
            xml.list("accelerators", "member", &kind.inference_accelerators, |xml, one| {
                xml.leaf("count", one.count);
                xml.leaf("name", &one.name);
                xml.leaf("manufacturer", &one.manufacturer);
            });
        });
    }
    if !kind.neuron.is_empty() {
        xml.node("neuronInfo", |xml| {
            xml.list("neuronDevices", "item", &kind.neuron, |xml, one| {
                xml.leaf("count", one.count);
                xml.leaf("name", &one.name);
                xml.node("coreInfo", |xml| xml.leaf("count", one.cores_per_device));
            });
        });
    }
}
