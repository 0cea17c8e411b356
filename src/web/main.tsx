/** Starts the page in the browser: style sheets first, then the application. */
import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './look/page.css';
import './look/parts.css';
import { createRoot } from 'react-dom/client';
import { App } from './app.tsx';
import { adoptVariables } from './look/theme.ts';

adoptVariables();
const root = document.getElementById('root');
if (root !== null) createRoot(root).render(<App />);
