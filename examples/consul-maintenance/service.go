package main

import (
	"cmp"
	"context"

	"github.com/hashicorp/consul/api"
)

// service is what this node offers, as its agent knows it.
type service struct {
	agent *api.Agent
	name  string
	id    string
}

func (s service) register(ctx context.Context) error {
	registration := &api.AgentServiceRegistration{ID: s.id, Name: s.name}
	return s.agent.ServiceRegisterOpts(registration, api.ServiceRegisterOpts{}.WithContext(ctx))
}

func (s service) deregister(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
	defer cancel()
	return s.agent.ServiceDeregisterOpts(s.id, new(api.QueryOptions).WithContext(ctx))
}

// inMaintenance does something while Consul sends nobody to this node.
func (s service) inMaintenance(ctx context.Context, reason string, do func() error) (err error) {
	// Also if the agent does not answer: it may have heard all the same.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
		defer cancel()
		err = cmp.Or(err, s.agent.DisableServiceMaintenanceOpts(s.id, new(api.QueryOptions).WithContext(ctx)))
	}()
	err = s.agent.EnableServiceMaintenanceOpts(s.id, reason, new(api.QueryOptions).WithContext(ctx))
	if err != nil {
		return err
	}
	return do()
}
