/** Owns the command palette: search for every page, action, group and device by keyboard. */
import { Modal, TextInput, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useDeferredValue, useMemo, useState, type KeyboardEvent, type ReactNode } from 'react';
import { deviceVerbs, findCommands, readVerb, type Command, type DeviceVerb } from '../model/palette.ts';
import { DeviceIcon, GroupIcon, PlusIcon, SearchIcon } from '../components/icons.tsx';
import { failed, notify } from '../state/write.tsx';
import { useDeviceNames, deviceName, useSnapshot, useRights, useLive } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { navigationLinks } from './navigation.ts';
import { takeTyped } from './palette-key.ts';
import { showShortcuts } from './shortcuts.tsx';

const most = 12;

interface Runnable extends Command {
  readonly run: () => void;
}

function useCommands(org: string): readonly Runnable[] {
  const { devices, groups } = useSnapshot();
  const { mayWrite } = useRights();
  const { end } = useSession();
  const navigate = useNavigate();
  const { setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const next = useComputedColorScheme('light') === 'dark' ? 'light' : 'dark';
  return useMemo(() => {
    const pages = navigationLinks.map(({ to, name }): Runnable => ({
      id: to,
      kind: 'page',
      name,
      keywords: 'go to',
      run: () => void navigate({ to, params: { org } }),
    }));
    const action = (id: string, name: string, keywords: string, run: () => void): Runnable => ({
      id,
      kind: 'action',
      name,
      keywords,
      run,
    });
    return [
      ...pages,
      ...(mayWrite
        ? [
            action(
              'new-group',
              'New group',
              'create add rules',
              () => void navigate({ to: '/o/$org/groups/new', params: { org } }),
            ),
            action(
              'add-devices',
              'Add devices',
              'enrollment key create new',
              () => void navigate({ to: '/o/$org/keys', params: { org } }),
            ),
          ]
        : []),
      action('tokens', 'Your tokens', 'account', () => void navigate({ to: '/o/$org/tokens', params: { org } })),
      action('shortcuts', 'Keyboard shortcuts', 'help keys ?', () => showShortcuts()),
      action('scheme', `Use the ${next} colours`, 'dark light theme', () => setColorScheme(next)),
      action('sign-out', 'Sign out', 'leave log out', () => end()),
      ...groups.map((group): Runnable => ({
        id: group.id,
        kind: 'group',
        name: group.group_name,
        keywords: group.group_description,
        run: () => void navigate({ to: '/o/$org/groups/$group', params: { org, group: group.id } }),
      })),
      ...devices.map((device): Runnable => ({
        id: device.id,
        kind: 'device',
        name: deviceName(device),
        keywords: `${device.tunnel_ip} ${device.id}`,
        run: () => void navigate({ to: '/o/$org/devices/$device', params: { org, device: device.id } }),
      })),
    ];
  }, [org, devices, groups, mayWrite, navigate, next, setColorScheme, end]);
}

/** Commands take a name without quotes only where a shell takes it as it is. */
const isPlainWord = (name: string): boolean => /^[\w.-]+$/.test(name);

const copy = (command: string): void => {
  navigator.clipboard.writeText(command).then(
    () => notify(`Copied: ${command}`),
    (error: unknown) => failed(error, 'The browser does not allow copying'),
  );
};

/** What can be done with a device that was found. */
function useDeviceActions(org: string): (device: Command, verbs: readonly DeviceVerb[]) => readonly Runnable[] {
  const { governs } = useRights();
  const names = useDeviceNames();
  const navigate = useNavigate();
  return ({ id, name }, verbs) => {
    const word = isPlainWord(names.nameOf(id)) ? names.nameOf(id) : id;
    const command = `ringfence device show ${word}`;
    const actions: { readonly [Verb in DeviceVerb]: readonly [name: string, run: () => void] } = {
      explain: [
        `Explain who can reach ${name}`,
        () => void navigate({ to: '/o/$org/reach', params: { org }, search: { to: id } }),
      ],
      flows: [
        `Show the flows of ${name}`,
        () => void navigate({ to: '/o/$org/flows', params: { org }, search: { device: id, verdict: 'all' } }),
      ],
      isolate: [
        `Isolate ${name}…`,
        () => void navigate({ to: '/o/$org/devices/$device', params: { org, device: id }, search: { isolate: true } }),
      ],
      copy: [`Copy: ${command}`, () => copy(command)],
    };
    return verbs
      .filter((verb) => verb !== 'isolate' || governs)
      .map((verb): Runnable => ({
        id: `${verb} ${id}`,
        kind: 'action',
        name: actions[verb][0],
        keywords: '',
        run: actions[verb][1],
      }));
  };
}

/** Devices that a verb lists. */
const mostOfVerb = 6;

const icons: { readonly [K in Command['kind']]: ReactNode } = {
  page: <SearchIcon size={16} />,
  action: <PlusIcon size={16} />,
  group: <GroupIcon size={16} />,
  device: <DeviceIcon size={16} />,
};

function Finder({ close }: { readonly close: () => void }): ReactNode {
  const { id: org } = useLive();
  const commands = useCommands(org);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const wanted = useDeferredValue(text);
  const actionsOf = useDeviceActions(org);
  const asked = readVerb(wanted);
  const matched = useMemo(() => findCommands(commands, wanted, most) as readonly Runnable[], [commands, wanted]);
  const devices = matched.filter(({ kind }) => kind === 'device');
  const [only] = devices.length === 1 ? devices : [];
  const found =
    asked === undefined
      ? [...matched, ...(only === undefined ? [] : actionsOf(only, deviceVerbs))]
      : findCommands(
          commands.filter(({ kind }) => kind === 'device'),
          asked.rest,
          mostOfVerb,
          'devices too',
        ).flatMap((device) => actionsOf(device, [asked.verb]));
  const current = Math.min(at, found.length - 1);
  const choose = (command: Runnable | undefined): void => {
    if (command === undefined) return;
    close();
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0 && found.length > 0) {
      event.preventDefault();
      setAt((current + step + found.length) % found.length);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      choose(found[current]);
    }
  };
  return (
    <div className="stack tight">
      <TextInput
        role="combobox"
        aria-label="Find a page, an action, a group or a device"
        aria-expanded={found.length > 0}
        aria-controls="palette-list"
        aria-activedescendant={found[current] === undefined ? undefined : `palette-${current}`}
        placeholder="Find, or explain, flows, isolate, copy …"
        leftSection={<SearchIcon size={16} />}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onFocus={() => setText((before) => before + takeTyped())}
        onKeyDown={onKeyDown}
        data-autofocus
      />
      <ul id="palette-list" role="listbox" aria-label="Found" className="palette">
        {found.map((command, index) => (
          <li
            key={`${command.kind} ${command.id}`}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === current}
            className={index === current ? 'palette-row palette-on' : 'palette-row'}
            onMouseMove={() => setAt(index)}
            onClick={() => choose(command)}
          >
            {icons[command.kind]}
            <span className="clip grow">{command.name}</span>
            <span className="small dimmed">{command.kind}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 ? <p className="small dimmed">No matches.</p> : null}
    </div>
  );
}

export function CommandPalette({ opened, close }: { readonly opened: boolean; readonly close: () => void }): ReactNode {
  return (
    <Modal opened={opened} onClose={close} title="Go to" size="lg" yOffset="10vh" centered={false}>
      <Finder close={close} />
    </Modal>
  );
}
