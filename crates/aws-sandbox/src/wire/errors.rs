//! Errors as each protocol writes them.

use super::params::Params;
use super::request::{Service, WireAnswer};
use super::xml::Xml;
use crate::account::Refusal;
use jiff::Timestamp;
use serde_json::json;

/// Stands for the id that AWS gives to each request.
pub(super) const REQUEST_ID: &str = "00000000-0000-0000-0000-000000000000";

/// The answer of a call that is refused.
pub(super) fn refused(service: Service, refusal: &Refusal, now: Timestamp) -> WireAnswer {
    let (code, message) = (refusal.code.as_str(), refusal.message.as_str());
    let answer = match service {
        Service::Ec2 => WireAnswer::xml(ec2(code, message)),
        Service::Iam => WireAnswer::xml(query(code, message)),
        Service::Ssm | Service::Pricing => WireAnswer::json(&json!({"__type": code, "message": message})),
        Service::Sqs => sqs(code, message),
        Service::Eks | Service::ZonalShift | Service::Unknown => {
            WireAnswer::json(&json!({"message": message})).with_header("x-amzn-errortype", code)
        }
    };
    // SDKs compute from the time by how much their clock is wrong.
    let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    answer.with_status(refusal.status).with_header("date", date)
}

fn ec2(code: &str, message: &str) -> String {
    let mut xml = Xml::default();
    xml.node("Response", |xml| {
        xml.node("Errors", |xml| {
            xml.node("Error", |xml| {
                xml.leaf("Code", code);
                xml.leaf("Message", message);
            });
        });
        xml.leaf("RequestID", REQUEST_ID);
    });
    xml.finish()
}

fn query(code: &str, message: &str) -> String {
    let mut xml = Xml::default();
    xml.node(
        "ErrorResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"",
        |xml| {
            xml.node("Error", |xml| {
                xml.leaf("Type", "Sender");
                xml.leaf("Code", code);
                xml.leaf("Message", message);
            });
            xml.leaf("RequestId", REQUEST_ID);
        },
    );
    xml.finish()
}

/// SQS names an error twice: the JSON protocol's name in the body, and that of the older query protocol in a header.
fn sqs(code: &str, message: &str) -> WireAnswer {
    let older = match code {
        "QueueDoesNotExist" => "AWS.SimpleQueueService.NonExistentQueue",
        other => other,
    };
    let body = json!({"__type": format!("com.amazonaws.sqs#{code}"), "message": message});
    WireAnswer::json(&body).with_header("x-amzn-query-error", format!("{older};Sender"))
}

/// The error of an action that the service does not have.
pub(super) fn unknown_action(service: Service, action: &str) -> Refusal {
    let message = format!("The action {action} is not valid for this web service.");
    match service {
        Service::Ec2 | Service::Iam => Refusal::new("InvalidAction", message),
        Service::Ssm | Service::Sqs | Service::Pricing => Refusal::new("UnknownOperationException", message),
        Service::Eks | Service::ZonalShift | Service::Unknown => {
            Refusal::new("UnknownOperationException", message).with_status(404)
        }
    }
}

/// The error of a caller that the account does not know.
pub(super) fn unknown_caller(service: Service) -> Refusal {
    match service {
        Service::Ec2 => {
            let message = "AWS was not able to validate the provided access credentials";
            Refusal::new("AuthFailure", message).with_status(401)
        }
        Service::Iam => {
            let message = "The security token included in the request is invalid.";
            Refusal::new("InvalidClientTokenId", message).with_status(403)
        }
        _ => Refusal::new(
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
        ),
    }
}

/// The error of a signature of another time.
pub(super) fn expired(service: Service) -> Refusal {
    let message = "The signature of the request has expired, or is not valid yet.";
    match service {
        Service::Ec2 => Refusal::new("RequestExpired", message),
        Service::Iam => Refusal::new("SignatureDoesNotMatch", message).with_status(403),
        _ => Refusal::new("InvalidSignatureException", message),
    }
}

/// The error of a caller without permission. IAM names what the call is about.
pub(super) fn denied(service: Service, action: &str, body: &[u8]) -> Refusal {
    let name = service.name();
    match service {
        Service::Ec2 => {
            let message = format!(
                "You are not authorized to perform this operation. User is not authorized to perform: {name}:{action}"
            );
            Refusal::new("UnauthorizedOperation", message).with_status(403)
        }
        Service::Iam => {
            let params = Params::read(body);
            let resource = params.text("InstanceProfileName").unwrap_or("*");
            let message = format!(
                "User is not authorized to perform: {name}:{action} on resource: instance profile {resource} because no identity-based \
                 policy allows the {name}:{action} action"
            );
            Refusal::new("AccessDenied", message).with_status(403)
        }
        _ => Refusal::new(
            "AccessDeniedException",
            format!("User is not authorized to perform: {name}:{action}"),
        ),
    }
}
