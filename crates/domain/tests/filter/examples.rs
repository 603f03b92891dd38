//! Every example of the product's pages on filters and actions.

use domain::{Properties, SystemProperty, Value};

use crate::support::{check, check_with, message, parameters, run, run_with};

const LABEL: SystemProperty = SystemProperty::Subject;
const TO: SystemProperty = SystemProperty::To;

#[test]
fn rule_24_examples_on_system_properties() {
    let message = message()
        .system(LABEL, "the bus is here")
        .system(SystemProperty::MessageId, "xxxx")
        .system(SystemProperty::CorrelationId, "abc-123");
    check(
        &message,
        &[
            ("sys.label LIKE '%bus%'", "T"),
            ("sys.Label LIKE '%bus%'", "T"),
            ("sys.messageid = 'xxxx'", "T"),
            ("sys.correlationid like 'abc-%'", "T"),
            ("sys.Label LIKE '%bus%' OR user.tag IN ('queue', 'topic', 'subscription')", "T"),
        ],
    );
}

#[test]
fn rule_24_examples_on_user_properties() {
    let claim = "http://schemas.microsoft.com/xrm/2011/Claims/EntityLogicalName";
    let message = message()
        .set("MessageProperty", "A")
        .set("SuperHero", "SuperManReturns")
        .set(claim, "account")
        .set("tag", "topic");
    check(
        &message,
        &[
            ("MessageProperty = 'A'", "T"),
            ("user.SuperHero like 'SuperMan%'", "T"),
            (&format!("\"{claim}\" = 'account'"), "T"),
            (&format!("[{claim}] = 'contact'"), "F"),
            ("sys.Label LIKE '%bus%' OR user.tag IN ('queue', 'topic', 'subscription')", "T"),
        ],
    );
}

#[test]
fn rule_24_examples_on_numbers() {
    let one = message().set("MessageProperty", 1).set("MessageProperty2", 3);
    check(
        &one,
        &[
            ("MessageProperty = 1", "T"),
            ("MessageProperty > 1", "F"),
            ("MessageProperty > 2.08", "F"),
            ("MessageProperty = 1 AND MessageProperty2 = 3", "T"),
            ("MessageProperty = 1 OR MessageProperty2 = 3", "T"),
        ],
    );
    let many = message().set("MessageProperty", 2.09);
    check(&many, &[("MessageProperty > 1", "T"), ("MessageProperty > 2.08", "T")]);
}

#[test]
fn rule_29_examples_with_parameters() {
    let message = message()
        .set("DateTimeMp", Value::DateTime(1_000))
        .set("DateTimeMp1", Value::DateTime(1_000))
        .set("DateTimeMp2", Value::DateTime(3_000))
        .set("source", "orders");
    let given = parameters(&[
        ("@dtParam", Value::DateTime(2_000)),
        ("@timespan", Value::TimeSpan(20_000_000)),
        ("@stringParam", Value::String("orders".into())),
    ]);
    check_with(
        &message,
        &given,
        &[
            ("DateTimeMp < @dtParam", "T"),
            ("DateTimeMp > @dtParam", "F"),
            ("(DateTimeMp2-DateTimeMp1) <= @timespan", "T"),
            ("DateTimeMp2-DateTimeMp1 <= @timespan", "T"),
            ("source = @stringParam", "T"),
        ],
    );
    let change = run_with(&message, "SET source='routedOrders'", &Properties::new()).unwrap();
    assert_eq!(change.overlay.set["source"], Value::String("routedOrders".into()));
}

#[test]
fn rule_24_examples_of_in_and_not_in() {
    let stores = "StoreId IN('Store1', 'Store2', 'Store3')";
    let to = "sys.To IN ('Store5','Store6','Store7') OR StoreId = 'Store8'";
    let others = "sys.To NOT IN ('Store1','Store2','Store3','Store4','Store5','Store6','Store7','Store8') \
                  OR StoreId NOT IN ('Store1','Store2','Store3','Store4','Store5','Store6','Store7','Store8')";
    let message = message();
    check(&message, &[(stores, "U"), (to, "U"), (others, "U")]);
    check(&message.clone().set("StoreId", "Store2"), &[(stores, "T"), (to, "U"), (others, "U")]);
    check(&message.clone().set("StoreId", "Store8"), &[(stores, "F"), (to, "T"), (others, "U")]);
    check(&message.clone().system(TO, "Store6"), &[(stores, "U"), (to, "T"), (others, "U")]);
    check(&message.system(TO, "Store9"), &[(stores, "U"), (to, "U"), (others, "T")]);
}

#[test]
fn rule_24_examples_of_names_and_escape() {
    let message = message()
        .set("Property With Space", 1)
        .set("HR-EmployeeID", 2)
        .set("Contoso & Northwind", 3)
        .set("property", "ABC%");
    check(
        &message,
        &[
            ("[Property With Space] = 1", "T"),
            ("[HR-EmployeeID] = 2", "T"),
            ("\"Contoso & Northwind\" = 3", "T"),
            ("property LIKE 'ABC\\%' ESCAPE '\\'", "T"),
            ("1 = 1", "T"),
        ],
    );
}

/// The sample of the page: orders by color, quantity and priority.
#[test]
fn rule_24_examples_of_orders() {
    let red = message()
        .system(LABEL, "red")
        .system(SystemProperty::CorrelationId, "high")
        .set("color", "red")
        .set("quantity", 10)
        .set("priority", "high");
    check(
        &red,
        &[
            ("1=1", "T"),
            ("color='blue' AND quantity=10", "F"),
            ("user.color='red'", "T"),
            ("Subject = 'red' AND CorrelationId = 'high'", "U"),
            ("sys.Subject = 'red' AND sys.CorrelationId = 'high'", "T"),
        ],
    );
    let text = "SET quantity = quantity / 2; REMOVE priority;SET sys.CorrelationId = 'low';";
    let change = run(&red, text).unwrap();
    assert_eq!(change.overlay.set, [("quantity".to_owned(), Value::Int(5))].into());
    assert_eq!(change.overlay.removed, ["priority"]);
    let low = (SystemProperty::CorrelationId, Some("low".to_owned()));
    assert_eq!(change.texts, [low].into());
    let change = run(&red, "SET quantity = quantity / 2;").unwrap();
    assert_eq!(change.overlay.set["quantity"], Value::Int(5));
}
