//! A process without the lease changes nothing.

use super::Invariant;
use crate::caller::Caller;
use crate::view::{Event, View};

pub(crate) struct Leadership;

impl Invariant for Leadership {
    fn name(&self) -> &'static str {
        "only the leader acts"
    }

    fn after(&mut self, seen: &View, caller: Caller, event: &Event) -> Option<String> {
        let leader = seen
            .leader
            .filter(|leader| caller.is_kerf() && *leader != seen.acting)?;
        let does = match event {
            Event::Call(name) => format!("calls {name}"),
            _ => "writes".to_owned(),
        };
        Some(format!("life {} {does} while {leader} leads", seen.acting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_others_than_the_leader_are_told() {
        let mut seen = View {
            acting: 1,
            ..View::default()
        };
        let judge = |seen: &View, caller| Leadership.after(seen, caller, &Event::Pool);
        assert_eq!(judge(&seen, Caller::Kerf), None, "nobody competes");
        seen.leader = Some(1);
        assert_eq!(judge(&seen, Caller::Kerf), None);
        seen.leader = Some(2);
        assert!(judge(&seen, Caller::Kerf).is_some());
        assert_eq!(judge(&seen, Caller::Others), None);
        let call = Event::Call("ec2:CreateFleet".to_owned());
        let wrong = Leadership.after(&seen, Caller::Kerf, &call);
        assert_eq!(wrong.as_deref(), Some("life 1 calls ec2:CreateFleet while 2 leads"));
    }
}
