//! Clusters that failed a property once, minimised.

use super::plans::is_sound;

/// The first fourteen: a pod selected by its own affinity started a second domain although another such pod existed, or no order of binding
/// was found although there is one. Then: prices of reservations a claim does not have, opt-outs that defined a label, pods nominated to
/// claims, conflicts among running pods, domains of nodes that are removed.
const SOUND: [&str; 23] = [
    "node n0 cpu=4 mem=16Gi zone=a
     bound n0 x cpu=0.5 mem=1Gi label=app=y
     node n1 cpu=4 mem=16Gi zone=c
     pod w2*1 cpu=0.1 mem=0.25Gi label=app=y near=zone/app=y term=zone:in:c term=zone:in:a",
    "type t2 cpu=16 mem=128Gi price=1.2883 zones=a,b,c
     pool p0
     pod w0*7 cpu=7 mem=4Gi label=app=y spread=zone/1/app=q spread=zone/2/app=y
     pod w2*2 cpu=0.5 mem=1Gi label=app=q near=host/app=q
     pod w5*1 cpu=3 mem=1Gi",
    "type t0 cpu=4 mem=16Gi price=0.2466 zones=a
     pool p0
     node n0 cpu=4 mem=16Gi zone=c
     pod w2*2 cpu=0.5 mem=12Gi label=app=z term=zone:in:c term=zone:in:a near=zone/app=z",
    "type t1 cpu=8 mem=32Gi price=0.4894 zones=a,b
     pool p0
     node n1 cpu=4 mem=16Gi zone=c
     pod w5*2 cpu=3 mem=4Gi label=app=y near=zone/app=y term=zone:in:c term=zone:in:a",
    "type t3 cpu=8 mem=16Gi price=0.4062 zones=a,b,c
     pool p0
     node n1 cpu=4 mem=16Gi zone=a
     pod w3*3 cpu=1.5 mem=1Gi label=app=z spread=zone/1/app=q
     pod w4*1 cpu=7 mem=4Gi label=app=z spread=zone/1/app=z",
    "type t0 cpu=16 mem=128Gi price=1.2870 zones=a,b,c
     pool p0
     pod w0*1 cpu=0.1 mem=12Gi label=app=y near=host/app=y
     pod w2*1 cpu=0.1 mem=4Gi label=app=y spread=zone/2/app=x
     pod w4*5 cpu=0.5 mem=4Gi label=app=z spread=zone/2/app=z",
    "type t0 cpu=4 mem=16Gi price=0.2457 zones=a,b,c
     type t3 cpu=16 mem=64Gi price=0.9601 zones=a
     pool p0
     pod w0*2 cpu=1.5 mem=1Gi label=app=z near=host/app=z
     pod w1*1 cpu=7 mem=0.25Gi
     pod w2*2 cpu=1.5 mem=4Gi label=app=y apart=zone/app=y
     pod w3*1 cpu=1.5 mem=0.25Gi label=app=z",
    "type t4 cpu=16 mem=32Gi price=0.8012 zones=a,b,c
     pool p0
     node n0 cpu=4 mem=16Gi
     pod w0*1 cpu=7 mem=1Gi label=app=q near=host/app=q
     pod w1*1 cpu=0.1 mem=1Gi label=app=q spread=host/2/app=q",
    "type t0 cpu=8 mem=64Gi price=0.6406 zones=a,b
     type t1 cpu=8 mem=16Gi price=0.4074 zones=a,b,c
     pool p0 limit=cpu:33
     pod w0*1 cpu=0.5 mem=12Gi
     pod w1*4 cpu=0.5 mem=12Gi label=app=x term=zone:in:c term=zone:in:a near=zone/app=x",
    "type t0 cpu=4 mem=32Gi price=0.3250 zones=a,b
     pool p0
     node n2 cpu=4 mem=16Gi zone=c
     pod w4*2 cpu=3 mem=4Gi label=app=z term=zone:in:c term=zone:in:a near=zone/app=z",
    "type t0 cpu=8 mem=64Gi price=0.6471 zones=a,b,c
     pool p2
     node n1 cpu=4 mem=16Gi zone=b
     bound n1 x cpu=0.5 mem=1Gi apart=zone/app=q
     pod w0*1 cpu=7 mem=1Gi
     pod w4*2 cpu=1.5 mem=12Gi label=app=q spread=zone/1/app=q
     pod w5*1 cpu=0.1 mem=1Gi label=app=q spread=host/2/app=q",
    "type t0 cpu=8 mem=32Gi price=0.4888 zones=a,b
     pool p0
     node n0 cpu=4 mem=16Gi zone=c
     bound n0 x cpu=0.5 mem=1Gi label=app=z
     pod w0*1 cpu=7 mem=1Gi label=app=z near=zone/app=z term=zone:in:c term=zone:in:a",
    "type t3 cpu=16 mem=128Gi price=1.2863 zones=a,b,c
     pool p0
     node n0 cpu=4 mem=16Gi zone=a
     bound n0 x cpu=0.5 mem=1Gi label=app=y
     pod w4*1 cpu=3 mem=0.25Gi label=app=y near=zone/app=y term=zone:in:c term=zone:in:a",
    "type t0 cpu=16 mem=64Gi price=0.9641 zones=a,b
     type t2 cpu=8 mem=16Gi price=0.4008 zones=a,b,c
     pool p0
     pod w0*2 cpu=7 mem=1Gi
     pod w2*6 cpu=3 mem=1Gi label=app=z near=host/app=z
     pod w4*1 cpu=0.1 mem=1Gi label=app=z",
    "# fallback
     type t3 cpu=8 mem=32Gi price=0.4861 zones=a,b
     type t4 cpu=8 mem=16Gi price=0.4079 zones=c offer=reserved/b/0.002/res:l:2
     pool p0
     pod w2*1 cpu=1 mem=0.25Gi term=arch:in:amd64+zone:in:b
     pod w4*4 cpu=1 mem=12Gi",
    "# fallback
     type t1 cpu=4 mem=16Gi price=0.2407 zones=c offer=reserved/a/0.001/res:k:1
     pool p1
     pod w1*6 cpu=0.1 mem=4Gi label=app=q
     pod w4*1 cpu=3 mem=12Gi spread=ct/1/app=q term=zone:in:c",
    "type t1 cpu=8 mem=16Gi price=0.4085 zones=a,b,c
     pool p0
     pod w1*1 cpu=1 mem=1Gi prefer=1/team:in:green
     pod w2*1 cpu=7 mem=4Gi select=team:notin:red",
    "type t1 cpu=16 mem=32Gi price=0.8037 zones=a,b,c
     pool p0
     pod w0*1 cpu=3 mem=4Gi select=team:notin:red
     pod w3*1 cpu=3 mem=0.25Gi prefer=1/team:in:green",
    "type t1 cpu=16 mem=128Gi price=1.2859 zones=c
     pool p0
     node n1 cpu=4 mem=16Gi claim-only
     bound n1 b1-0 cpu=0.5 mem=1Gi label=app=y
     pod w2*1 cpu=7 mem=0.25Gi
     pod w3*1 cpu=3 mem=0.25Gi label=app=y spread=host/1/app=y",
    "type t0 cpu=2 mem=8Gi price=0.1226 zones=a
     pool p0
     node n1 cpu=4 mem=16Gi claim-only
     bound n1 b1-0 cpu=0.5 mem=1Gi label=app=z
     pod w1*1 cpu=1 mem=0.25Gi label=app=z spread=arch/1/app=x/soft/min=5 near=host/app=z",
    "type t1 cpu=8 mem=16Gi price=0.4081 zones=c
     pool p0
     node n0 cpu=4 mem=16Gi label=kubernetes.io/arch=amd64 claim-only
     bound n0 b0-0 cpu=0.5 mem=1Gi label=app=x
     pod w0*1 cpu=7 mem=4Gi apart=arch/app=x",
    "node n0 cpu=4 mem=16Gi
     bound n0 b0-0 cpu=0.5 mem=1Gi port=8080
     bound n0 b0-1 cpu=0.5 mem=1Gi port=8080
     node n1 cpu=4 mem=16Gi
     bound n1 b1-0 cpu=0.5 mem=1Gi moving",
    "type t2 cpu=8 mem=64Gi price=0.6473 zones=a
     pool p1
     node n0 cpu=4 mem=16Gi zone=c deleting
     bound n0 b0-0 cpu=0.5 mem=1Gi label=app=y
     pod w1*4 cpu=0.1 mem=12Gi label=app=y spread=zone/2/app=y",
];

#[test]
fn what_once_broke_a_rule_no_longer_does() {
    for text in SOUND {
        assert_eq!(is_sound(text), Ok(()), "{text}");
    }
}
