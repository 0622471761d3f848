//! Writes XML answers.

use std::fmt::Display;

/// An XML text that grows.
#[derive(Debug, Default)]
pub(super) struct Xml(String);

impl Xml {
    /// An element with a text.
    pub(super) fn leaf(&mut self, name: &str, value: impl Display) {
        let escaped = value
            .to_string()
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        self.0.push_str(&format!("<{name}>{escaped}</{name}>"));
    }

    /// An element with a text, if there is one.
    pub(super) fn optional(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.leaf(name, value);
        }
    }

    /// An element with others in it.
    pub(super) fn node(&mut self, name: &str, within: impl FnOnce(&mut Self)) {
        self.0.push_str(&format!("<{name}>"));
        within(self);
        // The name may be followed by attributes.
        let name = name.split(' ').next().unwrap_or_default();
        self.0.push_str(&format!("</{name}>"));
    }

    /// A list: each item is an element of its own.
    pub(super) fn list<T>(
        &mut self,
        name: &str,
        item_name: &str,
        items: impl IntoIterator<Item = T>,
        mut item: impl FnMut(&mut Self, T),
    ) {
        self.node(name, |xml| {
            for one in items {
                xml.node(item_name, |xml| item(xml, one));
            }
        });
    }

    /// A list of texts.
    pub(super) fn texts<T: Display>(&mut self, name: &str, item_name: &str, items: impl IntoIterator<Item = T>) {
        self.node(name, |xml| {
            for one in items {
                xml.leaf(item_name, one);
            }
        });
    }

    /// XML that was written elsewhere.
    pub(super) fn raw(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// The text.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_attributes_end_with_the_first_tag() {
        let mut xml = Xml::default();
        xml.node("a xmlns=\"u\"", |xml| {
            xml.leaf("b", "1 < 2 & 3 > 2");
            xml.optional("c", None::<&str>);
            xml.texts("d", "item", ["x"]);
        });
        assert_eq!(
            xml.finish(),
            "<a xmlns=\"u\"><b>1 &lt; 2 &amp; 3 &gt; 2</b><d><item>x</item></d></a>"
        );
    }
}
