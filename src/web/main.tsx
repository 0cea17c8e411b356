/** Starts the page in the browser: style sheets first, then the application. */
import './theme/mantine.css';
import './theme/page.css';
import './theme/components.css';
import './theme/history.css';
import './theme/reachability.css';
import './theme/overview.css';
import { createRoot } from 'react-dom/client';
import { App } from './app.tsx';
import { adoptVariables } from './theme/theme.ts';

adoptVariables();
const root = document.getElementById('root');
if (root !== null) createRoot(root).render(<App />);
