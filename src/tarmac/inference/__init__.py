"""What comes after a training: its model is scored, asked, and written to files of other forms.

Example::
    from tarmac import inference

    said = inference.predict("latest", "samples.csv")
    print(said.classes, said.probabilities)
"""

from tarmac.inference.exporting import FORMATS as FORMATS
from tarmac.inference.exporting import TOLERANCE as TOLERANCE
from tarmac.inference.exporting import Exported as Exported
from tarmac.inference.exporting import Format as Format
from tarmac.inference.exporting import export as export
from tarmac.inference.predicting import Predictions as Predictions
from tarmac.inference.predicting import predict as predict
from tarmac.inference.predicting import predict_each as predict_each
from tarmac.inference.reading import read_samples as read_samples
from tarmac.inference.scoring import Evaluation as Evaluation
from tarmac.inference.scoring import evaluate as evaluate
from tarmac.inference.trained import Trained as Trained
from tarmac.inference.trained import load_model as load_model
from tarmac.inference.trained import open_trained as open_trained
from tarmac.inference.writing import check_target as check_target
from tarmac.inference.writing import json_lines as json_lines
from tarmac.inference.writing import write_predictions as write_predictions
