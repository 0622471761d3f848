//! Extended resources of EC2 instances (AWS-205, AWS-206, AWS-358).

/// NVIDIA GPUs.
pub const NVIDIA_GPU: &str = "nvidia.com/gpu";
/// AMD GPUs.
pub const AMD_GPU: &str = "amd.com/gpu";
/// Habana Gaudi accelerators.
pub const HABANA_GAUDI: &str = "habana.ai/gaudi";
/// Neuron devices: Inferentia and Trainium chips.
pub const NEURON: &str = "aws.amazon.com/neuron";
/// Neuron cores.
pub const NEURON_CORE: &str = "aws.amazon.com/neuroncore";
/// Branch network interfaces for security groups per pod.
pub const POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
/// EFA network interfaces.
pub const EFA: &str = "vpc.amazonaws.com/efa";
/// IPv4 addresses for Windows pods.
pub const PRIVATE_IPV4_ADDRESS: &str = "vpc.amazonaws.com/PrivateIPv4Address";
/// Slots of network interface processors; a claim that requests them gets enclave support (AWS-164).
pub const NIP_SLOTS: &str = "eks.amazonaws.com/nip-slots";

/// Resources added to those every provider knows.
pub const WELL_KNOWN: [&str; 5] = [POD_ENI, NEURON, NEURON_CORE, HABANA_GAUDI, EFA];

/// Resources that make an instance type special: it is launched only for claims that need it (AWS-238).
pub const EXOTIC: [&str; 5] = [NVIDIA_GPU, AMD_GPU, NEURON, NEURON_CORE, HABANA_GAUDI];
