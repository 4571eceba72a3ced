from .user_code import UserCodeError as UserCodeError
from .user_code import call as call
from .user_code import in_one_line as in_one_line
from .user_code import load as load
from .user_code import search_in as search_in
from .workers import Limits as Limits
from .workers import Workers as Workers
