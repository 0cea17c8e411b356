/** Owns the pages that the navigation leads to. */
import {
  DeviceIcon,
  EventsIcon,
  FlowIcon,
  GroupIcon,
  KeyIcon,
  OverviewIcon,
  PeopleIcon,
  ReachIcon,
  TestIcon,
} from '../components/icons.tsx';

export const navigationLinks = [
  { to: '/o/$org/overview', name: 'Overview', Icon: OverviewIcon },
  { to: '/o/$org/devices', name: 'Devices', Icon: DeviceIcon },
  { to: '/o/$org/groups', name: 'Groups', Icon: GroupIcon },
  { to: '/o/$org/reach', name: 'Reachability', Icon: ReachIcon },
  { to: '/o/$org/flows', name: 'Flows', Icon: FlowIcon },
  { to: '/o/$org/tests', name: 'Policy tests', Icon: TestIcon },
  { to: '/o/$org/activity', name: 'Activity', Icon: EventsIcon },
  { to: '/o/$org/keys', name: 'Enrollment keys', Icon: KeyIcon },
  { to: '/o/$org/members', name: 'Organization', Icon: PeopleIcon },
] as const;
