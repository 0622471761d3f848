//! Clusters that once failed a property.

use super::plans::is_sound;

const SOUND: [&str; 0] = [];

#[test]
fn what_once_broke_a_rule_no_longer_does() {
    for text in SOUND {
        assert_eq!(is_sound(text), Ok(()), "{text}");
    }
}
