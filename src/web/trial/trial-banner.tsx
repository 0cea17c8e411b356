/** Owns the banner of open trials over every page: the time left, how the devices are, and the ways to keep, revert and widen. */
import { Button } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useEffect, useId, useRef, useState, type ReactNode } from 'react';
import type { Trial } from '../../api/trial/trials.ts';
import { groupChanges } from '../../client/words/changes.ts';
import { mayKeep, mayRevert, mayTakeOut } from '../../policy/trial/right.ts';
import { Confirm, type Confirmation } from '../components/dialog.tsx';
import { ClockIcon, DownIcon, UpIcon } from '../components/icons.tsx';
import { Lines, Tag, Ago, clockTime, SmallButton } from '../components/page.tsx';
import { notify, writeOrAsk, useWrite } from '../state/write.tsx';
import { stateTitle, stateTones, InForceCount } from '../device/device-state.tsx';
import { plural } from '../../client/words/number.ts';
import { endWords, recordName, scopeWords, timeLeft, trialName, trialRecords, withoutTakenOut } from './trial-words.ts';
import { FailingTests } from '../policy-test/test-results.tsx';
import { useDeviceNames, useLive, useNames, useRights, useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import type { OpenTrials } from '../state/trials.ts';
import { WidenDialog } from './try-dialog.tsx';
import { DeviceLink } from '../components/record-link.tsx';

/** The server's time, again every second. */
function useServerNow(skew: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return now + skew;
}

function Countdown({ trial, skew }: { readonly trial: Trial; readonly skew: number }): ReactNode {
  const left = Date.parse(trial.ends_at) - useServerNow(skew);
  if (left <= 0) return <strong>time is over, it is being taken back</strong>;
  return (
    <>
      <strong role="timer" className="countdown">
        {timeLeft(left)}
      </strong>{' '}
      left
    </>
  );
}

/** Devices that failed, reverted or went offline since the start, each with the reason. */
function Trouble({ trial }: { readonly trial: Trial }): ReactNode {
  const { trouble = [], more_trouble = 0 } = trial.enforcement ?? {};
  if (trouble.length === 0) return null;
  return (
    <ul className="rows pick-list" aria-label="Devices with trouble since the start">
      {trouble.map(({ device_id, hostname, in_force, detail }) => (
        <li key={device_id}>
          <DeviceLink className="plain-link clip" id={device_id}>
            <strong>{hostname || device_id}</strong>
          </DeviceLink>
          <Tag tone={stateTones[in_force]}>{stateTitle(in_force)}</Tag>
          <span className="small grow">{detail ?? ''}</span>
        </li>
      ))}
      {more_trouble > 0 ? <li>and {plural(more_trouble, 'more device', 'more devices')}</li> : null}
    </ul>
  );
}

function Failing({ trial }: { readonly trial: Trial }): ReactNode {
  const { failing_tests: failing = [], more_failing_tests: more = 0 } = trial;
  return failing.length === 0 ? null : <FailingTests title="Policy tests that fail" results={failing} more={more} />;
}

/** What is on trial: the changes of its groups. */
function Tried({ trial }: { readonly trial: Trial }): ReactNode {
  const { groupById } = useSnapshot();
  const names = useDeviceNames();
  return trial.security_groups.map((id) => {
    const group = groupById.get(id);
    if (group?.trial === undefined) return null;
    const { trial: _trial, ...now } = group;
    const before = group.trial.before ?? undefined;
    const lines = groupChanges(before, before === undefined ? now : { ...pickFields(now) }, names);
    return lines.length === 0 ? null : (
      <div key={id} className="stack tight">
        <strong>{group.group_name}</strong>
        <Lines lines={lines} />
      </div>
    );
  });
}

/** The fields that a trial can change. */
const pickFields = ({
  group_name,
  group_description,
  inbound_rules = [],
  outbound_rules = [],
  applies_to = [],
}: Parameters<typeof groupChanges>[1] & object) => ({
  ...(group_name !== undefined && { group_name }),
  ...(group_description !== undefined && { group_description }),
  inbound_rules,
  outbound_rules,
  applies_to,
});

/** What the person may do with the trial. `takeOut`: records that it may take back alone. */
function useTrialRights(trial: Trial) {
  const snapshot = useSnapshot();
  const { me, isOwner, mayWrite } = useRights();
  const records = trialRecords(trial, snapshot);
  const caller = { user_id: me.id, isOwner };
  const all = records.groups.length + records.devices.length;
  return {
    mayKeep: mayWrite && mayKeep({ ...records, by: trial.by }, caller),
    mayRevert: mayWrite && mayRevert({ ...records, by: trial.by }, caller),
    takeOut: mayWrite && all > 1 ? mayTakeOut(records, caller) : [],
  };
}

/** Records that go back alone, each with its button. */
function TakeOut({
  ids,
  busy,
  takeOut,
}: {
  readonly ids: readonly string[];
  readonly busy: boolean;
  readonly takeOut: (id: string) => void;
}): ReactNode {
  const snapshot = useSnapshot();
  if (ids.length === 0) return null;
  return (
    <ul className="rows pick-list" aria-label="What you may take back alone">
      {ids.map((id) => {
        const name = recordName(id, snapshot);
        return (
          <li key={id}>
            <span className="grow clip">{name}</span>
            <SmallButton disabled={busy} onClick={() => takeOut(id)} aria-label={`Take back only ${name}`}>
              Take back only this
            </SmallButton>
          </li>
        );
      })}
    </ul>
  );
}

function TrialRow({ trial, skew }: { readonly trial: Trial; readonly skew: number }): ReactNode {
  const { client } = useSession();
  const { id: org } = useLive();
  const snapshot = useSnapshot();
  const userName = useNames();
  const rights = useTrialRights(trial);
  const queries = useQueryClient();
  const details = useId();
  const [isOpen, setOpen] = useState(false);
  const [isWidening, setWidening] = useState(false);
  const [confirmation, setConfirmation] = useState<Confirmation>();
  const { failing_tests: failing = [], more_failing_tests: moreFailing = 0 } = trial;
  const failingWords = `${plural(failing.length + moreFailing, 'policy test')} ${failing.length + moreFailing === 1 ? 'fails' : 'fail'}`;
  const trouble = trial.enforcement?.trouble.length ?? 0;
  const name = trialName(trial, snapshot);
  const end = async (how: 'confirm' | 'revert'): Promise<void> => {
    if (how === 'revert') await client.trials.revert(org, trial.id);
    else await writeOrAsk((agreed) => client.trials.confirm(org, trial.id, agreed));
    await queries.invalidateQueries({ queryKey: ['trials', org] });
  };
  const { start, busy } = useWrite(end, 'The trial goes on');
  const { start: takeOut, busy: isTakingOut } = useWrite(async (record: string) => {
    await client.trials.revert(org, trial.id, { records: [record] });
    await queries.invalidateQueries({ queryKey: ['trials', org] });
  }, 'The trial goes on');
  /** Where something is wrong, a person sees it before the change is kept. */
  const keep = (): void => {
    if (trouble === 0 && failing.length === 0) return start('confirm');
    setConfirmation({
      title: `Keep the change of ${name}?`,
      isWide: true,
      body: (
        <div className="stack">
          {trouble === 0 ? null : <p>Since the trial began, these devices failed, reverted or went offline:</p>}
          <Trouble trial={trial} />
          <Failing trial={trial} />
        </div>
      ),
      action: 'Keep it anyway',
      act: () => end('confirm'),
    });
  };
  return (
    <li className="trial">
      <div className="row">
        <ClockIcon />
        <span className="grow trial-words">
          <span>
            <Link
              className="plain-link"
              {...(trial.security_groups[0] === undefined
                ? { to: '/o/$org/devices/$device', params: { org, device: trial.devices[0] ?? '' } }
                : { to: '/o/$org/groups/$group', params: { org, group: trial.security_groups[0] } })}
            >
              <strong>{name}</strong>
            </Link>{' '}
            is on trial, <Countdown trial={trial} skew={skew} />.
          </span>
          {trial.enforcement === undefined ? null : trial.enforcement.devices === 0 ? (
            <span>No device is in its scope</span>
          ) : (
            <InForceCount counts={trial.enforcement} />
          )}
          {failing.length === 0 ? null : <Tag tone="bad">{failingWords}</Tag>}
        </span>
        <span className="row">
          <button
            type="button"
            className="more"
            aria-expanded={isOpen}
            aria-controls={details}
            onClick={() => setOpen(!isOpen)}
          >
            Details {isOpen ? <UpIcon size={16} /> : <DownIcon size={16} />}
          </button>
          {rights.mayRevert ? (
            <Button
              size="compact-md"
              variant="default"
              disabled={busy}
              onClick={() => start('revert')}
              aria-label={`Revert the change of ${name}`}
            >
              Revert
            </Button>
          ) : null}
          {rights.mayKeep ? (
            <Button size="compact-md" loading={busy} onClick={keep} aria-label={`Keep the change of ${name}`}>
              Keep
            </Button>
          ) : null}
        </span>
      </div>
      <div id={details} hidden={!isOpen} className="stack tight trial-details">
        <p>
          Started <Ago at={trial.started_at} /> by {userName(trial.by)}, on {scopeWords(trial.scope)}. At{' '}
          {clockTime(Date.parse(trial.ends_at), Date.now())} the server takes the change back, unless someone keeps it.
          A device that cannot reach the server goes back by itself.
          {rights.mayKeep ? '' : ' Only those who may change all of it can keep it; an owner can revert it.'}
        </p>
        {isOpen ? <Tried trial={trial} /> : null}
        <Trouble trial={trial} />
        <Failing trial={trial} />
        {isOpen ? <TakeOut ids={rights.takeOut} busy={isTakingOut} takeOut={takeOut} /> : null}
        {rights.mayKeep && trial.scope !== undefined ? (
          <div>
            <SmallButton onClick={() => setWidening(true)}>Try it on more devices…</SmallButton>
          </div>
        ) : null}
      </div>
      {isWidening ? <WidenDialog trial={trial} name={name} close={() => setWidening(false)} /> : null}
      <Confirm confirmation={confirmation} close={() => setConfirmation(undefined)} />
    </li>
  );
}

/** Says what became of trials that end while the page is open. */
function useEndMessages(trials: readonly Trial[]): void {
  const { client } = useSession();
  const { id: org } = useLive();
  const snapshot = useSnapshot();
  const userName = useNames();
  const shown = useRef(new Map<string, string>());
  const nameOf = useRef(userName);
  nameOf.current = userName;
  useEffect(() => {
    const open = new Set<string>(trials.map(({ id }) => id));
    for (const [id, name] of shown.current) {
      if (open.has(id)) continue;
      shown.current.delete(id);
      void client.trials.get(org, id).then(
        (over) => {
          const text = endWords(over, name, over.ended_by && nameOf.current(over.ended_by));
          if (text !== undefined) notify(text);
        },
        () => undefined,
      );
    }
    for (const trial of trials) shown.current.set(trial.id, trialName(trial, snapshot));
  }, [trials, snapshot, client, org]);
}

export function TrialBanner({ open: { trials, skew } }: { readonly open: OpenTrials }): ReactNode {
  useEndMessages(trials);
  const snapshot = useSnapshot();
  if (trials.length === 0) return null;
  return (
    <section className="trials" aria-label="Trials">
      <ul className="rows">
        {trials.map((trial) => (
          <TrialRow key={trial.id} trial={withoutTakenOut(trial, snapshot)} skew={skew} />
        ))}
      </ul>
    </section>
  );
}
