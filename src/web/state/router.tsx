/** Owns the URLs of the pages. A page loads when it is first opened, or before that while the browser is idle. */
import { anyText, readSearch } from './search.ts';
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from '@tanstack/react-router';
import { onDemand } from './load-ahead.ts';
import { Landing } from '../pages/landing.tsx';
import { OrganizationFrame } from '../shell/layout.tsx';
import { parseActivitySearch } from '../model/activity.ts';
import { parseDeviceSearch } from '../model/device-search.ts';
import { parseFlowSearch } from '../flows/flow-search.ts';
import { NoSuchPage, PageFault } from '../components/placeholders.tsx';

/** A page by the file that it is in, which loads when somebody goes there. */
const page = <Exports extends Record<string, unknown>, Name extends keyof Exports & string>(
  load: () => Promise<Exports>,
  name: Name,
) => lazyRouteComponent(onDemand(load), name);

const root = createRootRoute({ component: Outlet });
const landing = createRoute({ getParentRoute: () => root, path: '/', component: Landing });
const evidence = createRoute({
  getParentRoute: () => root,
  path: '/evidence',
  component: page(() => import('../pages/evidence.tsx'), 'EvidencePage'),
});
const organization = createRoute({ getParentRoute: () => root, path: '/o/$org', component: OrganizationFrame });

const start = createRoute({
  getParentRoute: () => organization,
  path: '/',
  beforeLoad: ({ params }) => {
    // oxlint-disable-next-line typescript/only-throw-error -- the router expects a thrown redirect
    throw redirect({ to: '/o/$org/overview', params });
  },
});

const inside = () => organization;

const overview = createRoute({
  getParentRoute: inside,
  path: '/overview',
  component: page(() => import('../pages/overview.tsx'), 'OverviewPage'),
});
const devices = createRoute({
  getParentRoute: inside,
  path: '/devices',
  validateSearch: parseDeviceSearch,
  component: page(() => import('../pages/devices.tsx'), 'DevicesPage'),
});
const device = createRoute({
  getParentRoute: inside,
  path: '/devices/$device',
  // A dialog that is open here, or a change begun here, does not stay for another one.
  remountDeps: ({ params }) => params,
  // Opens the dialog that isolates, for the command palette.
  validateSearch: (search: Record<string, unknown>): { isolate?: true } =>
    search['isolate'] === true ? { isolate: true } : {},
  component: page(() => import('../pages/device.tsx'), 'DevicePage'),
});
const groups = createRoute({
  getParentRoute: inside,
  path: '/groups',
  component: page(() => import('../pages/groups.tsx'), 'GroupsPage'),
});
const newGroup = createRoute({
  getParentRoute: inside,
  path: '/groups/new',
  validateSearch: (search: Record<string, unknown>) => readSearch(search, { from: anyText }),
  component: page(() => import('../pages/new-group.tsx'), 'NewGroupPage'),
});
const group = createRoute({
  getParentRoute: inside,
  path: '/groups/$group',
  // A dialog that is open here, or a change begun here, does not stay for another one.
  remountDeps: ({ params }) => params,
  // A rule to begin with, drafted elsewhere: `model/allow-draft.ts`.
  validateSearch: (search: Record<string, unknown>): { allow?: string; edit?: true } => ({
    ...readSearch(search, { allow: anyText }),
    ...(search['edit'] === true && { edit: true }),
  }),
  component: page(() => import('../pages/group.tsx'), 'GroupPage'),
});
const reach = createRoute({
  getParentRoute: inside,
  path: '/reach',
  validateSearch: (search: Record<string, unknown>) =>
    readSearch(search, { from: anyText, to: anyText, port: anyText, at: anyText }),
  component: page(() => import('../pages/reach.tsx'), 'ReachPage'),
});
const tests = createRoute({
  getParentRoute: inside,
  path: '/tests',
  component: page(() => import('../pages/tests.tsx'), 'TestsPage'),
});
const flows = createRoute({
  getParentRoute: inside,
  path: '/flows',
  validateSearch: parseFlowSearch,
  component: page(() => import('../pages/flows.tsx'), 'FlowsPage'),
});
const activity = createRoute({
  getParentRoute: inside,
  path: '/activity',
  validateSearch: parseActivitySearch,
  component: page(() => import('../pages/activity.tsx'), 'ActivityPage'),
});
/** Where links of before still lead. */
const formerActivity = (['/events', '/audit'] as const).map((path) =>
  createRoute({
    getParentRoute: inside,
    path,
    beforeLoad: ({ params }) => {
      // oxlint-disable-next-line typescript/only-throw-error -- the router expects a thrown redirect
      throw redirect({ to: '/o/$org/activity', params });
    },
  }),
);
const members = createRoute({
  getParentRoute: inside,
  path: '/members',
  component: page(() => import('../pages/members.tsx'), 'MembersPage'),
});

const keys = createRoute({
  getParentRoute: inside,
  path: '/keys',
  component: page(() => import('../pages/keys.tsx'), 'KeysPage'),
});
const tokens = createRoute({
  getParentRoute: inside,
  path: '/tokens',
  component: page(() => import('../pages/tokens.tsx'), 'TokensPage'),
});

const newRouter = () =>
  createRouter({
    basepath: '/ui',
    routeTree: root.addChildren([
      landing,
      evidence,
      organization.addChildren([
        start,
        overview,
        devices,
        device,
        groups,
        newGroup,
        group,
        reach,
        tests,
        flows,
        activity,
        keys,
        members,
        tokens,
        ...formerActivity,
      ]),
    ]),
    defaultNotFoundComponent: NoSuchPage,
    defaultErrorComponent: PageFault,
    defaultPreload: 'intent',
    scrollRestoration: false,
  });

let made: ReturnType<typeof newRouter> | undefined;
/** Made once, when it is first asked for: building its tree of routes is a task of its own, after this file has run. */
export const theRouter = (): ReturnType<typeof newRouter> => (made ??= newRouter());

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
