/** Owns the first steps of an organization: they stay on its overview until the first rule is in force on a device. */
import { Link } from '@tanstack/react-router';
import { useMemo, type ReactNode } from 'react';
import { isEnforced } from '../../policy/effective.ts';
import { Step, type StepState } from '../components/step.tsx';
import { Card } from '../components/page.tsx';
import { countUses } from '../model/device-policy.ts';
import { stateOf } from '../model/device-state.ts';
import { plural } from '../model/rule-text.ts';
import { useRights, useSnapshot, useStatuses } from '../state/organization.ts';

/** How many of the steps are done; undefined while that is not known. */
export function useFirstSteps(): number | undefined {
  const { devices, groups } = useSnapshot();
  const statuses = useStatuses();
  return useMemo(() => {
    if (devices.length === 0) return 0;
    const rules = groups.filter(
      ({ is_default, inbound_rules = [], outbound_rules = [], mode }) =>
        is_default !== true && isEnforced({ mode }) && inbound_rules.length + outbound_rules.length > 0,
    );
    if (rules.length === 0) return 1;
    const uses = countUses({ devices, groups }, ({ id }) => stateOf(statuses.get(id)) === 'yes');
    const used = rules.flatMap(({ id }) => uses.get(id) ?? []);
    if (used.length === 0) return 2;
    if (statuses.size === 0) return undefined;
    return used.some(({ inForce }) => inForce > 0) ? 4 : 3;
  }, [devices, groups, statuses]);
}

export function FirstSteps({ org, done }: { readonly org: string; readonly done: number }): ReactNode {
  const { devices } = useSnapshot();
  const { mayWrite } = useRights();
  const stateOfStep = (step: number): StepState => (step < done ? 'done' : step === done ? 'now' : 'later');
  const groupsLink = (words: string): ReactNode => (
    <Link className="link" to="/o/$org/groups" params={{ org }}>
      {words}
    </Link>
  );
  return (
    <Card title="First steps" dense about={<span className="small dimmed">{done} of 4 done</span>}>
      <ol className="path-steps">
        <Step
          title="Add a device"
          state={stateOfStep(0)}
          action={
            done === 0 && mayWrite ? (
              <Link className="link" to="/o/$org/devices" params={{ org }}>
                Add devices
              </Link>
            ) : undefined
          }
        >
          {devices.length > 0
            ? `${plural(devices.length, 'device')} joined.`
            : 'Run the agent on a Linux machine with an enrollment key. The default group, which admits everything, applies to it.'}
        </Step>
        <Step
          title="Write a group with a rule"
          state={stateOfStep(1)}
          action={
            done === 1 && mayWrite ? (
              <Link className="link" to="/o/$org/groups/new" params={{ org }}>
                New group
              </Link>
            ) : undefined
          }
        >
          Say who may connect, such as PostgreSQL from app.
        </Step>
        <Step
          title="Let it apply to a device"
          state={stateOfStep(2)}
          action={done === 2 ? groupsLink('Open the groups') : undefined}
        >
          Name a label in “Applies to”, or attach the group to devices.
        </Step>
        <Step
          title="See it in force"
          state={stateOfStep(3)}
          action={done === 3 ? groupsLink('Where is it in force?') : undefined}
        >
          The agent reads the rules back from the kernel and says so, usually within a second.
        </Step>
      </ol>
    </Card>
  );
}
