// The client by which HashiCorp's provider for Azure manages a Service Bus, unmodified, as the provider uses it: it looks
// whether something is there, puts it, waits, and reads it back.
//
//	management ID BASE    ID: of subscription and tenant; BASE: https address of a node
//
// MAYFLY_SECRET is the key RootManageSharedAccessKey. Lines that begin with "wrong: " say what is not as it has to be.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/go-azure-helpers/lang/pointer"
	"github.com/hashicorp/go-azure-helpers/lang/response"
	"github.com/hashicorp/go-azure-helpers/resourcemanager/commonids"
	"github.com/hashicorp/go-azure-sdk/resource-manager/resources/2023-07-01/resourcegroups"
	"github.com/hashicorp/go-azure-sdk/resource-manager/servicebus/2024-01-01/namespaces"
	"github.com/hashicorp/go-azure-sdk/resource-manager/servicebus/2024-01-01/namespacesauthorizationrule"
	"github.com/hashicorp/go-azure-sdk/resource-manager/servicebus/2024-01-01/queues"
	"github.com/hashicorp/go-azure-sdk/resource-manager/servicebus/2024-01-01/queuesauthorizationrule"
	"github.com/hashicorp/go-azure-sdk/resource-manager/servicebus/2024-01-01/rules"
	"github.com/hashicorp/go-azure-sdk/resource-manager/servicebus/2024-01-01/subscriptions"
	"github.com/hashicorp/go-azure-sdk/resource-manager/servicebus/2024-01-01/topics"
	"github.com/hashicorp/go-azure-sdk/sdk/auth"
	"github.com/hashicorp/go-azure-sdk/sdk/client/resourcemanager"
	"github.com/hashicorp/go-azure-sdk/sdk/environments"
)

const group, namespace = "terraform", "sb-terraform"

// All of it takes seconds.
const within = 2 * time.Minute

func expect(what string, found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		fmt.Printf("wrong: %s is %v, not %v\n", what, found, wanted)
	}
}

func must[T any](what string) func(T, error) T {
	return func(found T, err error) T {
		if err != nil {
			fmt.Printf("wrong: %s: %v\n", what, err)
			os.Exit(1)
		}
		return found
	}
}

func check(what string, err error) {
	if err != nil {
		fmt.Printf("wrong: %s: %v\n", what, err)
	}
}

// A client of one kind of resource, which asks with the cluster's tokens.
func client[C any](make func(environments.Api) (C, error), inner func(C) *resourcemanager.Client, api environments.Api, by auth.Authorizer) C {
	found := must[C]("a client")(make(api))
	inner(found).SetAuthorizer(by)
	return found
}

func main() {
	id, base := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cloud := must[*environments.Environment]("the environment")(environments.FromEndpoint(ctx, base))
	options := auth.ClientSecretAuthorizerOptions{
		Environment:  *cloud,
		Api:          cloud.ResourceManager,
		TenantId:     id,
		ClientId:     "RootManageSharedAccessKey",
		ClientSecret: os.Getenv("MAYFLY_SECRET"),
	}
	by := must[auth.Authorizer]("a token")(auth.NewClientSecretAuthorizer(ctx, options))
	api := cloud.ResourceManager

	groups := client(resourcegroups.NewResourceGroupsClientWithBaseURI, func(c *resourcegroups.ResourceGroupsClient) *resourcemanager.Client { return c.Client }, api, by)
	spaces := client(namespaces.NewNamespacesClientWithBaseURI, func(c *namespaces.NamespacesClient) *resourcemanager.Client { return c.Client }, api, by)
	spaceRules := client(namespacesauthorizationrule.NewNamespacesAuthorizationRuleClientWithBaseURI, func(c *namespacesauthorizationrule.NamespacesAuthorizationRuleClient) *resourcemanager.Client {
		return c.Client
	}, api, by)
	queueClient := client(queues.NewQueuesClientWithBaseURI, func(c *queues.QueuesClient) *resourcemanager.Client { return c.Client }, api, by)
	queueRules := client(queuesauthorizationrule.NewQueuesAuthorizationRuleClientWithBaseURI, func(c *queuesauthorizationrule.QueuesAuthorizationRuleClient) *resourcemanager.Client {
		return c.Client
	}, api, by)
	topicClient := client(topics.NewTopicsClientWithBaseURI, func(c *topics.TopicsClient) *resourcemanager.Client { return c.Client }, api, by)
	subscriptionClient := client(subscriptions.NewSubscriptionsClientWithBaseURI, func(c *subscriptions.SubscriptionsClient) *resourcemanager.Client { return c.Client }, api, by)
	ruleClient := client(rules.NewRulesClientWithBaseURI, func(c *rules.RulesClient) *resourcemanager.Client { return c.Client }, api, by)

	groupID := commonids.NewResourceGroupID(id, group)
	_, err := groups.CreateOrUpdate(ctx, groupID, resourcegroups.ResourceGroup{Location: "westeurope"})
	check("a group", err)

	spaceID := namespaces.NewNamespaceID(id, group, namespace)
	absent, err := spaces.Get(ctx, spaceID)
	expect("a namespace before it is there", err != nil && response.WasNotFound(absent.HttpResponse), true)
	space := namespaces.SBNamespace{
		Location: "westeurope",
		Sku:      &namespaces.SBSku{Name: namespaces.SkuNameStandard, Tier: pointer.To(namespaces.SkuTierStandard), Capacity: pointer.To(int64(0))},
		Tags:     &map[string]string{"team": "x"},
		Properties: &namespaces.SBNamespaceProperties{
			DisableLocalAuth:           pointer.To(false),
			MinimumTlsVersion:          pointer.To(namespaces.TlsVersionOnePointTwo),
			PremiumMessagingPartitions: pointer.To(int64(0)),
			PublicNetworkAccess:        pointer.To(namespaces.PublicNetworkAccessEnabled),
		},
	}
	check("a namespace", spaces.CreateOrUpdateThenPoll(ctx, spaceID, space))
	found := must[namespaces.GetOperationResponse]("the namespace")(spaces.Get(ctx, spaceID))
	expect("its tier", found.Model.Sku.Name, namespaces.SkuNameStandard)
	expect("its tags", *found.Model.Tags, map[string]string{"team": "x"})
	network := must[namespaces.GetNetworkRuleSetOperationResponse]("its network")(spaces.GetNetworkRuleSet(ctx, spaceID))
	expect("who is let in", *network.Model.Properties.DefaultAction, namespaces.DefaultActionAllow)

	ruleID := namespacesauthorizationrule.NewAuthorizationRuleID(id, group, namespace, "app")
	_, err = spaceRules.NamespacesCreateOrUpdateAuthorizationRule(ctx, ruleID, namespacesauthorizationrule.SBAuthorizationRule{
		Properties: &namespacesauthorizationrule.SBAuthorizationRuleProperties{
			Rights: []namespacesauthorizationrule.AccessRights{namespacesauthorizationrule.AccessRightsListen},
		},
	})
	check("an authorization rule", err)
	keys := must[namespacesauthorizationrule.NamespacesListKeysOperationResponse]("its keys")(spaceRules.NamespacesListKeys(ctx, ruleID))
	expect("its string", strings.Contains(*keys.Model.PrimaryConnectionString, "SharedAccessKeyName=app;"), true)

	queueID := queues.NewQueueID(id, group, namespace, "orders")
	_, err = queueClient.CreateOrUpdate(ctx, queueID, queues.SBQueue{Properties: &queues.SBQueueProperties{
		LockDuration:            pointer.To("PT30S"),
		MaxDeliveryCount:        pointer.To(int64(4)),
		EnableBatchedOperations: pointer.To(true),
		EnableExpress:           pointer.To(false),
		EnablePartitioning:      pointer.To(false),
		Status:                  pointer.To(queues.EntityStatusActive),
		MaxSizeInMegabytes:      pointer.To(int64(1024)),
	}})
	check("a queue", err)
	queue := must[queues.GetOperationResponse]("the queue")(queueClient.Get(ctx, queueID))
	expect("its lock", *queue.Model.Properties.LockDuration, "PT30S")
	born, err := queue.Model.Properties.GetCreatedAtAsTime()
	expect("when it was born", err == nil && !born.IsZero(), true)
	queueRuleID := queuesauthorizationrule.NewQueueAuthorizationRuleID(id, group, namespace, "orders", "sender")
	_, err = queueRules.QueuesCreateOrUpdateAuthorizationRule(ctx, queueRuleID, queuesauthorizationrule.SBAuthorizationRule{
		Properties: &queuesauthorizationrule.SBAuthorizationRuleProperties{
			Rights: []queuesauthorizationrule.AccessRights{queuesauthorizationrule.AccessRightsSend},
		},
	})
	check("a rule of the queue", err)

	topicID := topics.NewTopicID(id, group, namespace, "news")
	_, err = topicClient.CreateOrUpdate(ctx, topicID, topics.SBTopic{Properties: &topics.SBTopicProperties{
		SupportOrdering: pointer.To(true), RequiresDuplicateDetection: pointer.To(true),
	}})
	check("a topic", err)
	subscriptionID := subscriptions.NewSubscriptions2ID(id, group, namespace, "news", "all")
	_, err = subscriptionClient.CreateOrUpdate(ctx, subscriptionID, subscriptions.SBSubscription{Properties: &subscriptions.SBSubscriptionProperties{
		MaxDeliveryCount: pointer.To(int64(3)), ForwardTo: pointer.To("orders"), IsClientAffine: pointer.To(false),
	}})
	check("a subscription", err)
	filterID := rules.NewRuleID(id, group, namespace, "news", "all", "big")
	_, err = ruleClient.CreateOrUpdate(ctx, filterID, rules.Rule{Properties: &rules.Ruleproperties{
		FilterType: pointer.To(rules.FilterTypeSqlFilter),
		SqlFilter:  &rules.SqlFilter{SqlExpression: pointer.To("size > 3")},
		Action:     &rules.Action{},
	}})
	check("a rule", err)
	filter := must[subscriptions.RulesGetOperationResponse]("the rule")(subscriptionClient.RulesGet(ctx, subscriptions.NewRuleID(id, group, namespace, "news", "all", "big")))
	expect("its filter", *filter.Model.Properties.SqlFilter.SqlExpression, "size > 3")
	all := must[queues.ListByNamespaceCompleteResult]("all queues")(queueClient.ListByNamespaceComplete(ctx, queues.NewNamespaceID(id, group, namespace), queues.DefaultListByNamespaceOperationOptions()))
	expect("how many queues", len(all.Items), 1)

	_, err = ruleClient.Delete(ctx, filterID)
	check("the rule, deleted", err)
	_, err = subscriptionClient.Delete(ctx, subscriptionID)
	check("the subscription, deleted", err)
	_, err = topicClient.Delete(ctx, topicID)
	check("the topic, deleted", err)
	_, err = queueClient.Delete(ctx, queueID)
	check("the queue, deleted", err)
	gone, err := queueClient.Get(ctx, queueID)
	expect("the queue, when it is gone", err != nil && response.WasNotFound(gone.HttpResponse), true)
	// Waiting takes ten seconds each time, whatever is answered: the client looks again no sooner. Once will do.
	_, err = groups.Delete(ctx, groupID, resourcegroups.DefaultDeleteOperationOptions())
	check("the group, deleted with its namespace", err)
	absent, err = spaces.Get(ctx, spaceID)
	expect("the namespace, when its group is gone", err != nil && response.WasNotFound(absent.HttpResponse), true)
	fmt.Println("done")
}
