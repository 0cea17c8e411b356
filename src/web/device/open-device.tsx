/** Owns the guided way from an open device to enforced rules, on its page: each step with its state and its action. */
import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useMemo, useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { coverageWords, wouldWords } from '../../client/words/observation.ts';
import { coveredWords, observedWords } from '../../client/words/proposal.ts';
import { sentence } from '../components/sentence.ts';
import { Step } from '../components/step.tsx';
import { clockTime } from '../components/time.tsx';
import { useGroupObservation } from '../flows/group-observation.tsx';
import { RecordButton } from '../flows/observe-setting.tsx';
import { ModeButton } from '../group/group-mode.tsx';
import { openPath, type OpenPath } from './open-path.ts';
import { plural } from '../model/rule-text.ts';
import { useLive, useOrganization, useRights, useSnapshot } from '../state/organization.ts';
import { scopeWords } from '../trial/trial-words.ts';
import { ProposalDialog } from './proposal-dialog.tsx';
import { useProposal } from './proposal.ts';

/** Days after which most of the usual traffic was seen. */
const usualDays = 7;

function GroupLink({ group }: { readonly group: SecurityGroup }): ReactNode {
  const { id: org } = useLive();
  return (
    <Link className="link" to="/o/$org/groups/$group" params={{ org, group: group.id }}>
      {group.group_name}
    </Link>
  );
}

/** The first two steps, while there is no group yet. */
function Begin({ device }: { readonly device: Device }): ReactNode {
  const observe = useOrganization()?.observe;
  const isRecorded = observe === 'all';
  const query = useProposal({ device_ids: [device.id] }, usualDays, isRecorded);
  const [isOpen, setOpen] = useState(false);
  const { data, error } = query;
  const isObserved = data !== undefined && data.observed > 0;
  const isShort = isObserved && data.device_days * data.observed < usualDays - 0.5;
  return (
    <>
      <Step
        title="Observe"
        state={isObserved ? 'done' : 'now'}
        action={observe === undefined || isRecorded ? undefined : <RecordButton observe="all" />}
      >
        {observe === undefined || (isRecorded && data === undefined && error === null) ? (
          'Looking at the traffic…'
        ) : !isRecorded ? (
          'Agents do not record admitted traffic. They record addresses and ports of first packets, never content.'
        ) : error !== null ? (
          <span className="fault" role="alert">
            {sentence(error)}{' '}
            <button type="button" className="link" onClick={() => void query.refetch()}>
              Try again
            </button>
          </span>
        ) : !isObserved ? (
          'Agents record, and this device has not reported any traffic yet. Agents report once a minute.'
        ) : (
          <>
            {observedWords(data)}
            {isShort ? ' A week shows most of the usual traffic.' : ''}
          </>
        )}
      </Step>
      <Step
        title="Propose rules"
        state={isObserved ? 'now' : 'later'}
        action={
          isObserved ? (
            <Button variant={isShort ? 'default' : 'filled'} onClick={() => setOpen(true)}>
              Propose rules…
            </Button>
          ) : undefined
        }
      >
        {!isObserved
          ? 'From the observed traffic you get rules with their evidence.'
          : data.rules.length === 0
            ? coveredWords(data)
            : `${plural(data.rules.length, 'rule')} would admit the observed traffic.`}
        {isOpen ? <ProposalDialog device={device} close={() => setOpen(false)} /> : null}
      </Step>
      <Step title="Watch only" state="later">
        The rules become a group that decides nothing yet. You see what it would have refused.
      </Step>
      <Step title="Try it" state="later">
        The rules are in force, and every device takes them back by itself unless you keep them.
      </Step>
    </>
  );
}

/** What the watch-only group would have done so far. */
function Watched({ group }: { readonly group: SecurityGroup }): ReactNode {
  const query = useGroupObservation(group);
  const { data, error } = query;
  if (error !== null)
    return (
      <span className="fault" role="alert">
        {sentence(error)}
      </span>
    );
  if (data === undefined) return 'Comparing the traffic…';
  return (
    <>
      {data.observed > 0 ? `${wouldWords(data)} ` : ''}
      {coverageWords(data)}
    </>
  );
}

function Go({ path: { watched, tried } }: { readonly path: OpenPath }): ReactNode {
  const { editGroup } = useRights();
  const group = tried ?? watched;
  if (group === undefined) return null;
  const rules = (group.inbound_rules ?? []).length + (group.outbound_rules ?? []).length;
  const { trial } = group;
  return (
    <>
      <Step title="Observe" state="done">
        Agents report what they admit and refuse.
      </Step>
      <Step title="Propose rules" state="done">
        <GroupLink group={group} /> has {plural(rules, 'rule')}.
      </Step>
      <Step title="Watch only" state={tried === undefined ? 'now' : 'done'}>
        {tried === undefined ? (
          <>
            <Watched group={group} /> The page of <GroupLink group={group} /> lists it. Edit the rules there.
          </>
        ) : (
          'It was watch only before the trial.'
        )}
      </Step>
      <Step
        title="Try it"
        state={tried === undefined ? 'later' : 'now'}
        action={tried === undefined && editGroup(group) ? <ModeButton group={group} /> : undefined}
      >
        {trial === undefined
          ? 'Enforce shows who loses what. Choose Try it first there: every device takes the rules back by itself unless you keep them.'
          : `It is tried on ${scopeWords(trial.scope)} until ${clockTime(Date.parse(trial.ends_at), Date.now())}. Keep or revert it in the bar at the top.`}
      </Step>
    </>
  );
}

/** For owners, on the page of a device that admits everything, or that only a trial closes. */
export function OpenDevice({ device }: { readonly device: Device }): ReactNode {
  const { groups, groupById } = useSnapshot();
  const { isOwner } = useRights();
  const path = useMemo(() => openPath(device, { groups, groupById }), [device, groups, groupById]);
  if (path === undefined || !isOwner) return null;
  const { openBy, watched, tried } = path;
  // A group of its own replaces the default group, and no other.
  const others = openBy.filter(({ by }) => by !== 'default').flatMap(({ group }) => group?.group_name ?? []);
  return (
    <section className="card" aria-label="From open to enforced">
      <div className="card-head">
        <div>
          <h2>{openBy.length === 0 ? 'Rules are on trial here' : 'This device admits everything'}</h2>
          <p className="small dimmed">Five steps lead to rules that admit only what it needs.</p>
        </div>
      </div>
      <ol className="path-steps">
        {watched === undefined && tried === undefined ? <Begin device={device} /> : <Go path={path} />}
        <Step title="Enforce" state="later">
          {others.length === 0
            ? 'Keep the trial, or enforce at once. The group then takes the place of the default group.'
            : `Then detach ${others.join(', ')} from the device: while it applies, everything gets in.`}
        </Step>
      </ol>
    </section>
  );
}
