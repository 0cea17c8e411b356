/** * Owns the editing of a group until it is saved: the draft, its problems, the preview, and conflicts with other
 * editors. */
import { Button, Textarea, TextInput } from '@mantine/core';
import { useEffect, useMemo, useRef, useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import type { SecurityGroup, WrittenGroup } from '../../api/group.ts';
import type { RuleUsage } from '../../api/usage/rule-usage.ts';
import { RingfenceError } from '../../client/error.ts';
import { labelsIn } from '../../client/words/unknown-labels.ts';
import { adviceOn } from '../model/advice.ts';
import {
  readDraft,
  withDrafted,
  difference,
  merge,
  patchOf,
  contentOf,
  countFields,
  draftOf,
  judge,
  problemAt,
  withoutUnused,
  type DraftedRule,
  type Content,
  type Draft,
} from '../model/draft.ts';
import { plural } from '../../client/words/number.ts';
import { devicesNamed } from '../../organization/of-records.ts';
import { isEnforced } from '../../policy/effective.ts';
import type { GuardrailKind } from '../../policy/rule.ts';
import { useDeviceNames, useRights, useSnapshot } from '../state/organization.ts';
import { writeOrAsk, useWrite, notify } from '../state/write.tsx';
import { useSession } from '../state/session.ts';
import { Confirm, LeaveGuard, Dialog, DialogFoot, type Confirmation } from '../components/dialog.tsx';
import { UnknownLabels, FarEndInput } from './far-end-input.tsx';
import { Preview, Changes } from './preview.tsx';
import { RuleEditor } from './rule-editor.tsx';
import { clockTime } from '../components/page.tsx';
import { TryDialog, type TrialQuery } from '../trial/try-dialog.tsx';

export function DraftFields({
  draft,
  setDraft,
  autoFocus = false,
  appliesByLabel,
  guardrail,
}: {
  readonly draft: Draft;
  readonly setDraft: (draft: Draft) => void;
  readonly autoFocus?: boolean;
  /** Whether it is a group that may apply by label: one of the organization, not the default. */
  readonly appliesByLabel: boolean;
  readonly guardrail: GuardrailKind | undefined;
}): ReactNode {
  const names = useDeviceNames();
  const { problems, content } = useMemo(() => judge(draft, { names, guardrail }), [draft, names, guardrail]);
  const advice = useMemo(() => (content === undefined ? [] : adviceOn(content, names)), [content, names]);
  const labels = useMemo(() => labelsIn(content === undefined ? [] : [content]), [content]);
  return (
    <>
      <section className="card card-body stack" aria-label="Name and description">
        <TextInput
          label="Name"
          value={draft.name}
          onChange={(event) => setDraft({ ...draft, name: event.currentTarget.value })}
          error={draft.name === '' ? undefined : problemAt(problems, '/group_name')}
          autoFocus={autoFocus}
          required
        />
        <Textarea
          label="Description"
          value={draft.description}
          onChange={(event) => setDraft({ ...draft, description: event.currentTarget.value })}
          error={problemAt(problems, '/group_description')}
          autosize
          minRows={1}
          maxRows={6}
        />
        {appliesByLabel ? (
          <FarEndInput
            label="Applies to"
            description={
              guardrail === undefined
                ? 'Devices with these labels have the group without naming it in their list.'
                : 'A guardrail binds every device with these labels.'
            }
            placeholder="label:db, all-devices"
            suggest="labels"
            chips={draft.appliesTo}
            onChange={(appliesTo) => setDraft({ ...draft, appliesTo })}
            error={problemAt(problems, '/applies_to')}
          />
        ) : null}
      </section>
      {(['inbound', 'outbound'] as const).map((direction) => (
        <RuleEditor
          key={direction}
          direction={direction}
          rules={draft[direction]}
          problems={problems}
          onChange={(rules) => setDraft({ ...draft, [direction]: rules })}
        />
      ))}
      {advice.map(({ text, tone }) => (
        <p key={text} className={`note note-${tone}`} role="status">
          {text}
        </p>
      ))}
      <UnknownLabels labels={labels} />
    </>
  );
}

interface Base {
  readonly content: Content;
  readonly revision: number;
}
const baseOf = (group: SecurityGroup): Base => ({ content: contentOf(group), revision: group.revision });

/** The content without these rules. */
const withoutRules = (content: Content, unused: readonly RuleUsage[]): Content =>
  withoutUnused(content, (direction, _, index) =>
    unused.some((one) => one.direction === direction && one.rule === index),
  ).content;

const arrival = (devices: number): string =>
  devices === 0 ? 'No device uses it yet.' : `On its way to ${plural(devices, 'device')}.`;

/** What the draft changes from the start: a rule more, or fewer rules. */
export interface Beginning {
  readonly add?: DraftedRule;
  readonly without?: readonly RuleUsage[];
}

export function GroupEditor({
  group,
  devices,
  allow,
  beginning = {},
}: {
  readonly group: SecurityGroup;
  readonly devices: readonly Device[];
  /** A rule to begin with, drafted on another page. */
  readonly allow?: string | undefined;
  /** Chosen in the read view. */
  readonly beginning?: Beginning | undefined;
}): ReactNode {
  const { client } = useSession();
  const names = useDeviceNames();
  const { guardrail } = group;
  const [base, setBase] = useState(() => baseOf(group));
  const [draft, setDraft] = useState(() =>
    withDrafted(
      draftOf(withoutRules(base.content, beginning.without ?? []), names),
      allow === undefined ? beginning.add : readDraft(allow, names),
    ),
  );
  const [looking, setLooking] = useState(false);
  const [isTrying, setTrying] = useState(false);
  const [conflict, setConflict] = useState<EditConflict>();
  const [warnings, setWarnings] = useState<NonNullable<WrittenGroup['warnings']>>([]);
  const { mode } = base.content;
  const judged = useMemo(() => judge(draft, { names, guardrail, mode }), [draft, names, guardrail, mode]);
  const { content } = judged;
  const changes = content === undefined ? undefined : difference(base.content, content);
  const dirty = changes === undefined || changes.count > 0;
  const dirtyNow = useRef(dirty);
  dirtyNow.current = dirty;

  const root = useRef<HTMLDivElement>(null);
  const begun = beginning.add?.direction;
  // The button that began the change was in the read view: the new rule takes the focus, once the page has its height.
  useEffect(() => {
    if (begun === undefined) return undefined;
    const frame = requestAnimationFrame(() => {
      const fields = root.current?.querySelectorAll<HTMLElement>(`[aria-label^="Ports of ${begun} rule"]`);
      [...(fields ?? [])].at(-1)?.focus();
    });
    return () => cancelAnimationFrame(frame);
  }, [begun]);

  const start = (from: SecurityGroup): void => {
    const next = baseOf(from);
    setBase(next);
    setDraft(draftOf(next.content, names));
  };
  // Someone else's save flows in by itself, unless there is work that it would wipe away.
  useEffect(() => {
    if (group.revision > base.revision && !dirtyNow.current) start(group);
  }, [group, base.revision]);
  const overtaken = dirty && group.revision > base.revision;

  const put = (from: Content, to: Content, ifMatch: number, trial?: TrialQuery): Promise<WrittenGroup> =>
    writeOrAsk((agreed) =>
      client.groups.update(group.org_id, group.id, patchOf(from, to), { ifMatch, ...trial, ...agreed }),
    );
  /** Undefined where someone else saved first: then the person sees both. */
  const putFirst = async (next: Content, on: Base, trial?: TrialQuery): Promise<WrittenGroup | undefined> => {
    const saved = await put(on.content, next, on.revision, trial).catch((error: unknown) => {
      if (!(error instanceof RingfenceError) || error.code !== 'precondition_failed') throw error;
    });
    setLooking(false);
    if (saved === undefined) {
      setConflict({ base: base.content, mine: next, theirs: await client.groups.get(group.org_id, group.id) });
      return undefined;
    }
    start(saved);
    setConflict(undefined);
    setWarnings(saved.warnings ?? []);
    return saved;
  };
  const { groupById, devices: allDevices } = useSnapshot();
  const { me } = useRights();
  const [confirmation, setConfirmation] = useState<Confirmation>();
  /** Asks first where the change takes a name that another group has. */
  const withName = (next: Content, from: Content, go: () => void): void => {
    const { id, user_id } = group;
    const question =
      next.group_name === from.group_name
        ? undefined
        : askTakenName(groupById.values(), { id, user_id, group_name: next.group_name }, me.id);
    if (question === undefined) go();
    else setConfirmation({ ...question, action: 'Rename it', act: async () => go() });
  };
  const { start: write, busy } = useWrite(async ({ next, on }: { readonly next: Content; readonly on: Base }) => {
    const saved = await putFirst(next, on);
    if (saved === undefined) return;
    notify(
      `Saved. ${isEnforced(saved) ? arrival(devices.length) : 'It is watch only: nothing changes on any device.'}`,
      () => put(contentOf(saved), on.content, saved.revision),
    );
  }, 'Not saved');
  const onTrial = group.trial !== undefined;
  const isReady = content !== undefined && dirty && !onTrial;
  const save = (): void => {
    if (isReady && !busy) withName(content, base.content, () => write({ next: content, on: base }));
  };
  const tryFirst = (): void => {
    if (isReady) withName(content, base.content, () => setTrying(true));
  };
  const choose = (choice: 'both' | 'mine' | 'theirs'): void => {
    if (conflict === undefined) return;
    const theirs = baseOf(conflict.theirs);
    if (choice === 'theirs') {
      start(conflict.theirs);
      setConflict(undefined);
      return;
    }
    const next = choice === 'mine' ? conflict.mine : merge(conflict.base, conflict.mine, theirs.content);
    if (difference(theirs.content, next).count === 0) {
      start(conflict.theirs);
      setConflict(undefined);
    } else withName(next, theirs.content, () => write({ next, on: theirs }));
  };

  return (
    <div
      ref={root}
      className="stack"
      role="group"
      aria-label="Group editor"
      onKeyDown={(event) => {
        if ((event.ctrlKey || event.metaKey) && event.key === 's') {
          event.preventDefault();
          save();
        }
      }}
    >
      <Confirm confirmation={confirmation} close={() => setConfirmation(undefined)} />
      <LeaveGuard guarded={() => dirtyNow.current} />
      {overtaken ? (
        <div className="note note-warn row between" role="status">
          <span>Someone else just saved this group. Your changes are kept; saving will show both.</span>
        </div>
      ) : null}
      {warnings.map(({ pointer, detail }) => (
        <p key={`${pointer} ${detail}`} className="note note-warn" role="status">
          {detail}
        </p>
      ))}
      <fieldset className="stack" disabled={onTrial}>
        <DraftFields
          draft={draft}
          setDraft={setDraft}
          appliesByLabel={group.user_id === undefined && group.is_default !== true}
          guardrail={guardrail}
        />
      </fieldset>
      {content === undefined || !looking ? null : (
        <Preview
          close={() => setLooking(false)}
          before={base.content}
          after={content}
          change={{ security_groups: [{ id: group.id, ...patchOf(base.content, content) }] }}
        >
          <Button variant="default" disabled={!isReady} onClick={tryFirst}>
            Try it first
          </Button>
          <Button onClick={save} loading={busy} disabled={!isReady}>
            Save these changes
          </Button>
        </Preview>
      )}
      {isTrying && content !== undefined ? (
        <TryDialog
          title={`Try the changes of ${group.group_name}`}
          of={[...devices, ...devicesNamed(content.applies_to, allDevices)]}
          close={() => setTrying(false)}
          start={(trial) => putFirst(content, base, trial)}
        />
      ) : null}
      {conflict === undefined ? null : (
        <Merge conflict={conflict} close={() => setConflict(undefined)} choose={choose} busy={busy} />
      )}
      {dirty || onTrial ? (
        <div className="save-bar" role="region" aria-label={dirty ? 'Unsaved changes' : 'On trial'}>
          <span className="grow">
            {group.trial !== undefined ? (
              <span className="warn-text">
                A change of this group is on trial until {clockTime(Date.parse(group.trial.ends_at), Date.now())}: keep
                or revert it first
              </span>
            ) : changes === undefined ? (
              <span className="fault">{plural(countFields(judged.problems), 'problem')} to solve before saving</span>
            ) : (
              plural(changes.count, 'unsaved change')
            )}
          </span>
          {dirty ? (
            <>
              <Button variant="default" onClick={() => start(group)}>
                Discard
              </Button>
              <Button variant="default" disabled={content === undefined} onClick={() => setLooking(true)}>
                Preview
              </Button>
            </>
          ) : null}
          <Button variant="default" disabled={!isReady} onClick={tryFirst}>
            Try it first
          </Button>
          <Button disabled={!isReady} loading={busy} onClick={save}>
            Save
          </Button>
        </div>
      ) : null}
    </div>
  );
}

interface EditConflict {
  readonly base: Content;
  readonly mine: Content;
  readonly theirs: SecurityGroup;
}

function Merge({
  conflict,
  close,
  choose,
  busy,
}: {
  readonly conflict: EditConflict;
  readonly close: () => void;
  readonly choose: (choice: 'both' | 'mine' | 'theirs') => void;
  readonly busy: boolean;
}): ReactNode {
  return (
    <Dialog close={close} title="Someone else saved first" size="xl">
      <div className="stack">
        <p>Nothing is lost: your changes are still here. This is what each of you did since you began.</p>
        <div className="halves">
          <section aria-label="Their changes" className="stack tight">
            <h3>They saved</h3>
            <Changes of={difference(conflict.base, contentOf(conflict.theirs))} />
          </section>
          <section aria-label="Your changes" className="stack tight">
            <h3>You changed</h3>
            <Changes of={difference(conflict.base, conflict.mine)} />
          </section>
        </div>
        <p className="small dimmed">
          Keeping both puts your changes on top of theirs. Where both changed the name or the description, yours stands.
        </p>
        <DialogFoot cancel={() => choose('theirs')} cancelLabel="Take theirs, drop mine">
          <Button variant="default" onClick={() => choose('mine')} loading={busy}>
            Only mine
          </Button>
          <Button onClick={() => choose('both')} loading={busy} data-autofocus>
            Keep both
          </Button>
        </DialogFoot>
      </div>
    </Dialog>
  );
}

/** Undefined where no other group of the owner has the name. */
export function askTakenName(
  groups: Iterable<Pick<SecurityGroup, 'id' | 'group_name' | 'user_id'>>,
  {
    id,
    group_name,
    user_id,
  }: { readonly id?: string; readonly group_name: string; readonly user_id?: string | undefined },
  meId: string,
): Omit<Confirmation, 'action' | 'act'> | undefined {
  const isTaken = [...groups].some(
    (other) => other.id !== id && other.user_id === user_id && other.group_name === group_name,
  );
  if (!isTaken) return undefined;
  const owner =
    user_id === undefined
      ? 'The organization already has'
      : user_id === meId
        ? 'You already have'
        : 'Its user already has';
  return {
    title: 'Use this name twice?',
    body: `${owner} a group with the name ${group_name}. Commands then find both by id only.`,
  };
}
