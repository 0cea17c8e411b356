/** Owns the page of one device: which groups apply to it, its effective access, its history, and what is known of it. */
import { Back } from '../components/record-link.tsx';
import { Button } from '@mantine/core';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { useMemo, useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { ChangePreview } from '../change/change-preview.tsx';
import { Facts, Later, Ago, Card, Page, Revision, type Fact } from '../components/page.tsx';
import { TrashIcon } from '../components/icons.tsx';
import { policyOn } from '../../organization/of-records.ts';
import { Compiled } from '../components/ruleset.tsx';
import { Confirm, type Confirmation } from '../components/dialog.tsx';
import { DeviceGroups } from '../device/device-groups.tsx';
import { DeviceLabels } from '../device/device-labels.tsx';
import { EvidenceButton, HandOverButton, RenameButton } from '../device/device-actions.tsx';
import { IsolateButton, IsolationBanner } from '../device/isolation.tsx';
import { RecentlyRefused } from '../flows/recently-refused.tsx';
import { OpenDevice } from '../device/open-device.tsx';
import { DirectionTitle, RuleSentences } from '../group/rules.tsx';
import { deviceAccess } from '../model/device-policy.ts';
import { Empty } from '../components/placeholders.tsx';
import { notify, writeOrAsk } from '../state/write.tsx';
import { deviceName, useNames, useSnapshot, useRights, useStatuses, useModel, useLive } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import type { InForce } from '../../api/enforcement/in-force.ts';
import { packetWords } from '../../client/words/packets.ts';
import { stateOf } from '../model/device-state.ts';
import { plural } from '../../client/words/number.ts';
import { DeviceStateTag } from '../device/device-state.tsx';
import type { DevicePolicy, DevicePolicyState } from '../../api/history/states.ts';
import { deviceChanges, type Line } from '../../client/words/changes.ts';
import { unseenGroup } from '../../client/words/sentence.ts';
import { History } from '../components/history.tsx';

function About({ device }: { readonly device: Device }): ReactNode {
  const nameOf = useNames();
  const mono = (text: string): ReactNode => <span className="mono">{text}</span>;
  const known = (name: string, text: string): readonly Fact[] => (text === '' ? [] : [[name, mono(text)]]);
  const facts: readonly Fact[] = [
    ['User', nameOf(device.user_id)],
    ...known('Tunnel address', device.tunnel_ip),
    ...known('Other addresses', (device.addresses ?? []).join(', ')),
    ...known('Local address', device.local_ip),
    ...known('Seen from outside', device.reflexive_ip4),
    ...known('Networks behind it', (device.child_prefix ?? []).join(', ')),
    ...(device.relay ? [['Relay', 'yes'] as const] : []),
    ['Changed', <Ago key="changed" at={device.updated_at} />],
    ['Revision', <Revision key="revision" of={device.revision} />],
    ['Id', mono(device.id)],
  ];
  return (
    <Card title="About" label="About this device">
      <div className="card-body">
        <Facts facts={facts} />
      </div>
    </Card>
  );
}

const accessTitles = { inbound: 'What may reach it', outbound: 'What it may reach' } as const;

/** What packets meet: refusals and guardrails first, then the rules of the groups, then the rest. */
function Access({ policy, device }: { readonly policy: EffectivePolicy; readonly device: Device }): ReactNode {
  const { id: org } = useLive();
  return (['inbound', 'outbound'] as const).map((direction) => (
    <RuleSentences
      key={direction}
      direction={direction}
      access={deviceAccess(policy, direction)}
      title={
        <>
          <DirectionTitle direction={direction} title={accessTitles[direction]} />
          <Link
            className="link small"
            to="/o/$org/reach"
            params={{ org }}
            search={direction === 'inbound' ? { to: device.id } : { from: device.id }}
          >
            {direction === 'inbound' ? 'Which devices can connect to it?' : 'Which devices can it connect to?'}
          </Link>
        </>
      }
    />
  ));
}

/** The exact ruleset that the agent loads, for users who want to verify it. */
function Loaded({ policy, device }: { readonly policy: EffectivePolicy; readonly device: Device }): ReactNode {
  const [open, setOpen] = useState(false);
  const report = useStatuses().get(device.id)?.status;
  const reported = report?.interface;
  return (
    <section className="card" aria-label="nftables">
      <div className="card-head">
        <div>
          <h2>nftables</h2>
          <p className="small dimmed">
            What the agent loads for these rules
            {reported === undefined || reported === '' ? ', with wg0 for its interface' : ` on ${reported}`}. Compare it
            with <code>nft list ruleset</code> on the device.
          </p>
        </div>
        <Button variant="default" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? 'Hide' : 'Show'}
        </Button>
      </div>
      {open ? (
        <div className="card-body">
          <Compiled policy={policy} report={report} />
        </div>
      ) : null}
    </section>
  );
}

export function DevicePage(): ReactNode {
  const { org, device: id } = useParams({ from: '/o/$org/devices/$device' });
  const snapshot = useSnapshot();
  const { client } = useSession();
  const rights = useRights();
  const navigate = useNavigate();
  const [confirmation, setConfirmation] = useState<Confirmation>();
  const device = snapshot.deviceById.get(id.toLowerCase());
  const model = useModel();
  const policy = useMemo(
    () => (device === undefined ? undefined : policyOn(model, device.id, Date.now())),
    [device, model],
  );
  const back = <Back to="devices" />;
  if (device === undefined || policy === undefined) {
    return (
      <div className="page">
        <Empty whole title="This device is gone" action={back}>
          It was deleted, or it never existed.
        </Empty>
      </div>
    );
  }
  const name = deviceName(device);
  const remove = (): void =>
    setConfirmation({
      title: `Delete ${name}?`,
      isWide: true,
      body: (
        <div className="stack">
          <p>Its agent loses its credential. To come back, the device must join again.</p>
          <ChangePreview change={{ delete: [device.id] }} />
        </div>
      ),
      action: 'Delete the device',
      act: async () => {
        await writeOrAsk((agreed) => client.devices.delete(org, device.id, agreed));
        notify(`${name} is deleted.`);
        await navigate({ to: '/o/$org/devices', params: { org } });
      },
    });
  return (
    <Page
      title={name}
      about={<span className="mono">{device.tunnel_ip || 'no tunnel address yet'}</span>}
      back={back}
      actions={
        <>
          <EvidenceButton device={device} />
          <RenameButton device={device} />
          <HandOverButton device={device} />
          <IsolateButton device={device} />
          {rights.editDevice(device) ? (
            <Button variant="default" className="danger" leftSection={<TrashIcon size={16} />} onClick={remove}>
              Delete
            </Button>
          ) : null}
        </>
      }
    >
      <Confirm confirmation={confirmation} close={() => setConfirmation(undefined)} />
      <IsolationBanner device={device} />
      <OpenDevice device={device} />
      <div className="columns">
        <div className="stack">
          <DeviceGroups device={device} />
          {'missing' in policy ? (
            <p className="note note-warn">
              The rules in force cannot be shown: a group on this device is not visible to you.
            </p>
          ) : (
            <Later>
              <Access policy={policy} device={device} />
              <Loaded policy={policy} device={device} />
            </Later>
          )}
        </div>
        <div className="stack">
          <Later>
            <DeviceAgent device={device} />
            <DeviceLabels device={device} />
            <About device={device} />
          </Later>
        </div>
      </div>
      <Later>
        <RecentlyRefused device={device.id} />
        <DeviceHistory device={device} />
      </Later>
    </Page>
  );
}

const sentences: { readonly [Word in InForce]: string } = {
  yes: 'The policy on this page is in force on the device: its agent has read it back from the kernel.',
  behind: 'The device is connected and has not reported the newest change yet. It is on its way.',
  failed: 'The newest rules are not in force. Other rules stay in force until they are.',
  reverted: 'The newest rules cut the device off, so the ones before them are in force again.',
  offline:
    'The device is away and is not known to have the newest change. It keeps its rules while its agent or the server is away.',
  never_seen: 'No agent has reported for this device. Rules take effect when an agent runs there.',
  not_understood: 'The agent does not understand the newest rules and holds the ones before them. Update the agent.',
};

function DeviceAgent({ device }: { readonly device: Device }): ReactNode {
  const status = useStatuses().get(device.id);
  const said = status?.status;
  const { groupById } = useSnapshot();
  const nameOf = (id: string): string => groupById.get(id)?.group_name ?? 'a group that you may not see';
  const state = stateOf(status);
  const why = status?.detail ?? said?.detail ?? '';
  const facts: readonly Fact[] =
    status === undefined || said === undefined
      ? []
      : [
          ['Connected', status.online ? 'yes' : 'no'],
          ['Last seen', status.last_seen_at === undefined ? '–' : <Ago key="seen" at={status.last_seen_at} />],
          ['Revision in force', said.revision === undefined ? '–' : <Revision key="in force" of={said.revision} />],
          ['Interface', said.interface ?? '–'],
          ['Agent', said.agent_version ?? '–'],
          ...(said.drift_repairs === undefined || said.drift_repairs === 0
            ? []
            : [['Foreign changes', `${plural(said.drift_repairs, 'time')} undone`] as const]),
          ...(said.group_packets ?? []).map(
            (counted) => [`Matched by ${nameOf(counted.group_id)}`, packetWords(counted)] as const,
          ),
        ];
  return (
    <Card title="On the device" about={<DeviceStateTag status={status} />}>
      <div className="card-body stack">
        <p
          className={
            state === 'failed' || state === 'reverted' || state === 'not_understood' ? 'fault' : 'small dimmed'
          }
          role="status"
        >
          {sentences[state]}
        </p>
        {why === '' || state === 'yes' ? null : (
          <pre className="code code-wraps" tabIndex={0} aria-label="Message of the agent">
            {why}
          </pre>
        )}
        {facts.length === 0 ? null : <Facts facts={facts} />}
      </div>
    </Card>
  );
}

const recordOf = (state: DevicePolicyState | undefined): DevicePolicy | undefined =>
  state === undefined || state.type === 'delete' ? undefined : state.record;

function DeviceHistory({ device }: { readonly device: Device }): ReactNode {
  const { client } = useSession();
  const { groupById } = useSnapshot();
  const userOf = useNames();
  const { organization_id: org_id, id, revision } = device;
  const nameOf = (group: string): string => groupById.get(group)?.group_name ?? unseenGroup;
  const linesOf = (before: DevicePolicy | undefined, after: DevicePolicy | undefined): readonly Line[] => [
    ...(after === undefined || before?.user_id === after.user_id
      ? []
      : before === undefined
        ? [['+', `user ${userOf(after.user_id)}`] as const]
        : [['~', `user ${userOf(before.user_id)} → ${userOf(after.user_id)}`] as const]),
    // What a new device does not have yet says nothing: its labels may give it groups though its own list is empty.
    ...deviceChanges(before, after, nameOf, ['user_id']).filter(
      ([sign, text]) => sign !== '+' || (!text.endsWith(' ""') && text !== 'groups default'),
    ),
  ];
  return (
    <History<DevicePolicyState>
      title="History"
      about="Addresses, labels, groups, user and isolation, with their authors."
      of={{ org_id, id, revision }}
      load={(query, signal) =>
        client.request('listDeviceHistory', { params: { org_id, device_id: id }, query, signal })
      }
      linesOf={(before, state) => linesOf(recordOf(before), recordOf(state))}
      verb="added it"
    />
  );
}
