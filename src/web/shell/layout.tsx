/** Owns the frame around every page of an organization: navigation, the live snapshot behind the pages, and above all that it is not live, since when. */
import { ActionIcon, Menu } from '@mantine/core';
import { Link, Outlet, useLocation, useNavigate, useParams } from '@tanstack/react-router';
import {
  lazy,
  Suspense,
  use,
  useDeferredValue,
  useEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
  type ReactNode,
} from 'react';
import { KeyIcon, Logo, MenuIcon, OutIcon, SearchIcon, WarnIcon } from '../components/icons.tsx';
import { Loading, clockTime, SmallButton } from '../components/page.tsx';
import { Empty, Failed } from '../components/placeholders.tsx';
import { grouped } from '../../client/words/number.ts';
import {
  LiveOrganization,
  LiveContext,
  RoleContext,
  useOwnRole,
  useSnapshot,
  useLive,
  type Snapshot,
} from '../state/organization.ts';
import { loadAhead, onDemand } from '../state/load-ahead.ts';
import { refusalQuestion } from '../state/write.tsx';
import { useSession } from '../state/session.ts';
import { useTrials } from '../state/trials.ts';
import { SchemeToggle } from './color-scheme.tsx';
import { keepTyping, onPaletteKey } from './palette-key.ts';
import { Shortcuts } from './shortcuts.tsx';
import { Switcher } from './organization-switcher.tsx';
import { navigationLinks } from './navigation.ts';
import { useQueryClient } from '@tanstack/react-query';

const CommandPalette = lazy(
  onDemand(async () => ({ default: (await import('./command-palette.tsx')).CommandPalette })),
);

const RefusalDialog = lazy(onDemand(async () => ({ default: (await import('./refusal-dialog.tsx')).RefusalDialog })));

/** Over every page, because each of them may write what the server refuses at first. */
function Refusal(): ReactNode {
  const question = useSyncExternalStore(refusalQuestion.subscribe, refusalQuestion.read);
  return question === undefined ? null : (
    <Suspense>
      <RefusalDialog question={question} />
    </Suspense>
  );
}

const TrialBanner = lazy(onDemand(async () => ({ default: (await import('../trial/trial-banner.tsx')).TrialBanner })));

/** Over every page, because a trial ends by itself wherever one is. Its code comes with the first trial. */
function Trials(): ReactNode {
  const open = useTrials();
  const [wasOpen, setWasOpen] = useState(false);
  const isOpen = open.trials.length > 0;
  useEffect(() => {
    if (isOpen) setWasOpen(true);
  }, [isOpen]);
  return isOpen || wasOpen ? (
    <Suspense>
      <TrialBanner open={open} />
    </Suspense>
  ) : null;
}

function Pages(): ReactNode {
  const { id: org } = useLive();
  return (
    <nav aria-label="Pages">
      {navigationLinks.map(({ to, name, Icon }) => (
        <Link key={to} to={to} params={{ org }} className="nav" activeProps={{ className: 'nav nav-active' }}>
          <Icon />
          {name}
        </Link>
      ))}
    </nav>
  );
}

/** Remembered so that the next visit begins there. */
export const lastOrganization = 'ringfence-organization';

function Account(): ReactNode {
  const { id: org } = useLive();
  const { me, end } = useSession();
  const navigate = useNavigate();
  return (
    <Menu position="top-start" width={220}>
      <Menu.Target>
        <button type="button" className="account" aria-label={`${me.username}: account`}>
          <span className="avatar" aria-hidden="true" data-letters={me.username.slice(0, 2)} />
          <span className="clip">{me.username}</span>
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          {me.is_administrator === true
            ? 'Server administrator'
            : me.credential?.kind === 'session'
              ? 'Signed in at your provider'
              : 'Signed in by token'}
        </Menu.Label>
        {me.scope === 'read-only' ? <Menu.Label>Only reads</Menu.Label> : null}
        <Menu.Item
          leftSection={<KeyIcon size={16} />}
          onClick={() => void navigate({ to: '/o/$org/tokens', params: { org } })}
        >
          Your tokens
        </Menu.Item>
        <Menu.Item leftSection={<OutIcon size={16} />} onClick={() => end()}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function Waiting({ loaded }: { readonly loaded: number }): ReactNode {
  return (
    <div className="page">
      <Loading what={loaded === 0 ? 'Loading…' : `Loading… ${grouped(loaded)} records so far`} />
    </div>
  );
}

/** Waits for the first whole snapshot and for the rights, so that no page shows a half one and then moves. */
function Content(): ReactNode {
  const { synced, loaded, failure } = useSnapshot();
  const { isKnown } = use(RoleContext);
  // The page comes in slices after the listing, not in one go with it.
  const isReady = useDeferredValue(synced && isKnown) && synced;
  useEffect(() => {
    if (isReady) loadAhead();
  }, [isReady]);
  const { expired } = useSession();
  const out = failure?.code === 'unauthenticated';
  useEffect(() => {
    if (out) expired();
  }, [out, expired]);
  // The page stays, so that no unsaved input is lost while the user signs in again.
  if (out && synced) return <Outlet />;
  if (failure?.code === 'not_found' || failure?.code === 'forbidden' || failure?.code === 'malformed_path') {
    return (
      <div className="page">
        <Empty
          whole
          title="You are not in this organization"
          action={
            <Link to="/" className="link">
              Go to your organizations
            </Link>
          }
        >
          It does not exist, or you are no longer one of its members.
        </Empty>
      </div>
    );
  }
  if (failure !== undefined) {
    return (
      <div className="page">
        <Failed error={failure} retry={() => location.reload()} />
      </div>
    );
  }
  return isReady ? <Outlet /> : <Waiting loaded={loaded} />;
}

/** Opens under Ctrl+K, wherever one is; loaded when it is first wanted. */
function Palette(): ReactNode {
  const [opened, setOpened] = useState(false);
  const [wanted, setWanted] = useState(false);
  const open = (): void => {
    if (!opened) keepTyping();
    setWanted(true);
    setOpened(true);
  };
  useEffect(() => onPaletteKey(open));
  return (
    <>
      <button type="button" className="find" onClick={open}>
        <SearchIcon size={16} />
        <span className="grow">Find…</span>
        <kbd>Ctrl K</kbd>
      </button>
      {wanted ? (
        <Suspense>
          <CommandPalette opened={opened} close={() => setOpened(false)} />
        </Suspense>
      ) : null}
    </>
  );
}

function Side(): ReactNode {
  const { id: org } = useLive();
  return (
    <>
      <Switcher current={org} />
      <Palette />
      <Pages />
      <div className="side-end">
        <Account />
        <SchemeToggle />
      </div>
    </>
  );
}

export function OrganizationFrame(): ReactNode {
  const { org } = useParams({ from: '/o/$org' });
  // The router draws in one go; what is dear in the frame follows in slices, and so do the first requests.
  const isDrawn = useDeferredValue(true, false);
  const { token, me, round } = useSession();
  const user = me.id;
  const live = useMemo(() => new LiveOrganization(org, user, token), [org, user, token]);
  useEffect(() => (isDrawn ? live.start() : undefined), [live, isDrawn]);
  const role = useOwnRole(org, isDrawn);
  useEffect(() => {
    if (round > 0) live.retryNow();
  }, [live, round]);
  useEffect(() => localStorage.setItem(lastOrganization, org), [org]);
  const path = useLocation({ select: ({ pathname }) => pathname });
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [path]);
  const content = useRef<HTMLElement>(null);
  const lastPath = useRef(path);
  // A link on the page that one left took the focus with it: Tab goes on at the new page.
  useEffect(() => {
    if (path !== lastPath.current && document.activeElement === document.body)
      content.current?.focus({ preventScroll: true });
    lastPath.current = path;
  }, [path]);
  return (
    <LiveContext value={live}>
      <RoleContext value={role}>
        <div className="frame">
          <a className="skip" href="#content">
            Skip to the content
          </a>
          {/* No header: a dialog has one of its own, and a page has one banner at most. */}
          <div className="topbar" role="region" aria-label="Connection">
            <Link to="/o/$org/overview" params={{ org }} className="brand" aria-label="Ringfence, overview">
              <Logo size={26} />
              <span>Ringfence</span>
            </Link>
            <ConnectionDot />
            <ActionIcon
              size="lg"
              className="only-narrow"
              aria-label="Menu"
              aria-expanded={open}
              aria-controls="side"
              onClick={() => setOpen(!open)}
            >
              <MenuIcon />
            </ActionIcon>
          </div>
          <div id="side" className={open ? 'side side-open' : 'side'}>
            {isDrawn ? <Side /> : null}
          </div>
          <main ref={content} id="content" className="content" tabIndex={-1}>
            {isDrawn ? (
              <>
                <div className="banners">
                  <DisconnectedBanner />
                  <Trials key={org} />
                </div>
                <Content />
                <Shortcuts />
                <Refusal />
              </>
            ) : null}
          </main>
        </div>
      </RoleContext>
    </LiveContext>
  );
}

/** A stream that is resumed at once is no news; only a gap that a person would notice is. */
const showAfter = 1_500;

const isGone = ({ connection, synced }: Snapshot): boolean =>
  synced ? connection.phase !== 'live' : connection.failures > 0 || connection.phase === 'waiting';

/** Since when the stream is lost, in milliseconds since the epoch; undefined while it is not. */
function useLostSince(gone: boolean): number | undefined {
  const [since, setSince] = useState<number>();
  useEffect(() => {
    if (!gone) {
      setSince(undefined);
      return undefined;
    }
    const began = Date.now();
    const timer = setTimeout(() => setSince(began), showAfter);
    return () => clearTimeout(timer);
  }, [gone]);
  return since;
}

/** What the stream does not bring is asked again after a gap: it may have failed, or have changed meanwhile. */
function useFreshAfter(gone: boolean): void {
  const queries = useQueryClient();
  const wasGone = useRef(false);
  useEffect(() => {
    if (wasGone.current && !gone) void queries.invalidateQueries();
    wasGone.current = gone;
  }, [queries, gone]);
}

function ConnectionDot(): ReactNode {
  const snapshot = useSnapshot();
  const lost = useLostSince(isGone(snapshot)) !== undefined;
  const word = lost ? 'Disconnected' : snapshot.synced ? 'Live' : 'Connecting';
  return (
    <span className={`dot ${lost ? 'dot-lost' : snapshot.synced ? 'dot-live' : 'dot-wait'}`} role="status">
      {word}
    </span>
  );
}

function DisconnectedBanner(): ReactNode {
  const live = useLive();
  const snapshot = useSnapshot();
  const gone = isGone(snapshot);
  const since = useLostSince(gone);
  useFreshAfter(gone);
  if (since === undefined || snapshot.failure !== undefined) return null;
  return (
    <div className="banner" role="alert">
      <WarnIcon />
      <span className="grow">
        <strong>Disconnected since {clockTime(since, Date.now())}.</strong>{' '}
        {snapshot.synced ? 'What you see may be out of date.' : 'The server does not answer.'} The page reconnects by
        itself.
      </span>
      <SmallButton onClick={() => live.retryNow()}>Try now</SmallButton>
    </div>
  );
}
