//! Default disks of the image families (AWS-166).

use kerf_api::AmiFamily;

const GIB: i64 = 1 << 30;

/// Size of a disk where neither class nor family says one.
pub const DEFAULT_VOLUME_BYTES: i64 = 20 * GIB;

/// A default disk; its volume is gp3 and encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultVolume {
    /// Device name.
    pub device: &'static str,
    /// Size in bytes.
    pub bytes: i64,
}

/// The disks of a class that lists none.
pub const fn default_volumes(family: AmiFamily) -> &'static [DefaultVolume] {
    const LINUX: &[DefaultVolume] = &[DefaultVolume {
        device: "/dev/xvda",
        bytes: 20 * GIB,
    }];
    const BOTTLEROCKET: &[DefaultVolume] = &[
        DefaultVolume {
            device: "/dev/xvda",
            bytes: 4 * GIB,
        },
        DefaultVolume {
            device: "/dev/xvdb",
            bytes: 20 * GIB,
        },
    ];
    const WINDOWS: &[DefaultVolume] = &[DefaultVolume {
        device: "/dev/sda1",
        bytes: 50 * GIB,
    }];
    match family {
        AmiFamily::Al2 | AmiFamily::Al2023 => LINUX,
        AmiFamily::Bottlerocket => BOTTLEROCKET,
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => WINDOWS,
        AmiFamily::Custom => &[],
    }
}

/// The device that holds pods' storage; `None` for custom images, which are not known.
pub const fn pod_device(family: AmiFamily) -> Option<&'static str> {
    match family {
        AmiFamily::Al2 | AmiFamily::Al2023 => Some("/dev/xvda"),
        AmiFamily::Bottlerocket => Some("/dev/xvdb"),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => Some("/dev/sda1"),
        AmiFamily::Custom => None,
    }
}
