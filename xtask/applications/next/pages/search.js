import { page } from '../lib/shop';

export { default } from '../lib/view';
export const getServerSideProps = (context) =>
  page(context, 'Search', ['No pears for ' + (context.query.q ?? '')]);
